"""Landing pages over REST, server-sent events, web sockets and in the terminal."""
