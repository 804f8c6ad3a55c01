import type { Millis } from '../clock.ts'
import type { RtcConnection, MakeRtcConnection } from './rtc-interfaces.ts'

/** Connections of a tab at the same time, for all of its pages. */
const CONNECTIONS_MAX = 12
/** Connections that lanes leave for other peers. */
const SPARE_MIN = 4
/**
 * Connections that the browser may still count. A closed one counts until it is garbage-collected. Browsers allow about
 * 500 for all tabs of a process.
 */
const UNCOLLECTED_MAX = 200
/** Idle time after which a connection is released for another peer. */
const IDLE_MIN: Millis = 10_000

/** The user of a connection. */
export interface Holder {
  /** Since when nothing moved over the connection. `null` while something is to be sent. */
  idleSince(): Millis | null
  /** The connection is needed for another peer. */
  release(): void
}

/** The connections of a tab. */
export class RtcConnectionPool {
  readonly #make: MakeRtcConnection
  readonly #holders = new Map<RtcConnection, Holder>()
  #uncollected = 0
  readonly #collected = new FinalizationRegistry<void>(() => this.#uncollected--)

  constructor(make: MakeRtcConnection) {
    this.#make = make
  }

  /**
   * Makes a connection. If the pool is full, the one that was idle for longest is released first. `null` if none is
   * available.
   */
  take(now: Millis, holder: Holder, configuration: RTCConfiguration): RtcConnection | null {
    if (this.#holders.size >= CONNECTIONS_MAX) this.#idlest(now)?.release()
    if (this.#holders.size >= CONNECTIONS_MAX || this.#uncollected >= UNCOLLECTED_MAX) return null
    try {
      const connection = this.#make(configuration)
      this.#uncollected++
      this.#collected.register(connection, undefined)
      this.#holders.set(connection, holder)
      return connection
    } catch {
      // The browser makes no more connections, or is configured to make none.
      return null
    }
  }

  /** Makes a connection beside one to the same peer, if enough are left for other peers. */
  takeSpare(now: Millis, holder: Holder, configuration: RTCConfiguration): RtcConnection | null {
    return this.#holders.size >= CONNECTIONS_MAX - SPARE_MIN ? null : this.take(now, holder, configuration)
  }

  /** Closes a connection and frees its place. */
  release(connection: RtcConnection): void {
    this.#holders.delete(connection)
    connection.close()
  }

  #idlest(now: Millis): Holder | null {
    let idlest: Holder | null = null
    let since = now - IDLE_MIN
    for (const holder of this.#holders.values()) {
      const idleSince = holder.idleSince()
      if (idleSince === null || idleSince > since) continue
      idlest = holder
      since = idleSince
    }
    return idlest
  }
}
