// olareg, a registry with the referrers API of OCI 1.1. It keeps its content in memory.

import { listeningPorts } from './listening-ports.mjs'
import { mirrorTools } from './mirror-tools.mjs'
import { Program } from './program.mjs'

export class Olareg extends Program {
  static async start() {
    const [port] = await listeningPorts(1)
    const olareg = new Olareg(port)
    const answers = () =>
      fetch(`${olareg.url}/v2/`).then(
        ({ ok }) => ok,
        () => false,
      )
    await olareg.until(answers, 'olareg answers')
    return olareg
  }

  constructor(port) {
    super(mirrorTools.olareg, ['serve', '--addr', '127.0.0.1', '--port', String(port), '--store-type', 'mem'])
    this.port = port
  }

  get url() {
    return `http://127.0.0.1:${this.port}`
  }
}
