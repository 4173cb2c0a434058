// A TCP proxy that can be cut, or stall: connections stay open, and nothing passes.
import { connect, createServer } from "node:net";

export class TcpProxy {
  sockets = new Set();

  constructor(target) {
    this.target = target;
  }

  async start() {
    this.server = createServer((client) => {
      const upstream = connect(this.target, "127.0.0.1");
      for (const one of [client, upstream]) {
        this.sockets.add(one);
        one.on("error", () => undefined);
        one.on("close", () => { this.sockets.delete(one); client.destroy(); upstream.destroy(); });
      }
      client.pipe(upstream).pipe(client);
    });
    await new Promise((resolve) => this.server.listen(this.port ?? 0, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  stall() {
    for (const one of this.sockets) one.pause();
  }

  cut() {
    this.server.close();
    for (const one of this.sockets) one.destroy();
  }

  restore() {
    return this.start();
  }

  async stop() {
    this.cut();
  }
}
