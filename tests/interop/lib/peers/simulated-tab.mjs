// One simulated peer: the web client without its screen, with its own socket and connections.

import { createHash } from 'node:crypto'
import WebSocket from 'ws'

import { TrafficMeter } from './traffic-meter.mjs'

export class Tab {
  #connection
  #session
  #meter
  #joinedAt = Date.now()
  #completedAt = null
  #state = null

  /** Opens a page; with a publication, shares it. */
  constructor(web, { endpoint, limits, root, publication }) {
    this.#meter = new TrafficMeter(web.decodeRelayFrame)
    this.#connection = web.connect(endpoint, { transport: WebSocket })
    this.#session = web.openPage(root, {
      connection: this.#meter.connection(this.#connection),
      limits,
      direct: this.#meter.directConnections(web.directConnections),
      ...(publication === undefined ? {} : { publication }),
    })
    this.#session.subscribe((state) => {
      this.#state = state
      if (state.phase === 'complete') this.#completedAt ??= Date.now()
    })
  }

  report() {
    const { phase, progress, peersDropped, problems } = this.#state
    const { blocksDone, blocksTotal } = progress
    return {
      phase,
      share: blocksTotal ? blocksDone / blocksTotal : 0,
      peersDropped,
      problems: problems.map(({ sentence }) => sentence),
      joinedAt: this.#joinedAt,
      completedAt: this.#completedAt,
      ...this.#meter.report(),
    }
  }

  /** The hash of the page's only file, from its verified blocks. */
  async hash() {
    const [{ path }] = this.#session.listing().files
    const hash = createHash('sha256')
    for await (const bytes of (await this.#session.file(path)).stream()) hash.update(bytes)
    return hash.digest('hex')
  }

  /** Closes the tab. */
  leave() {
    this.#session.close()
    this.#connection.close()
  }
}
