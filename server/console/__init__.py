"""The console: the page at `/`, which shows and steers every served graph, and the API that only it uses."""
