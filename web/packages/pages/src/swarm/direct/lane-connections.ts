import { fieldsOf } from '../../limits/fields.ts'
import { isCount } from '../../limits/count.ts'
import type { Clock, Millis } from '../clock.ts'
import type { DataChannel, RtcConnection } from './rtc-interfaces.ts'
import { isOfDataAlone } from './signal.ts'

/** Lanes that each side may open. */
const LANES_MAX = 3
/** Offers of the other side in one call. A browser counts a connection for a while after its end. */
const OFFERS_MAX = 2 * LANES_MAX
/** Timeout for a lane to open. */
const OPEN_MAX: Millis = 15_000
/** The longest time in which the addresses of a connection are collected. */
const GATHER_MAX: Millis = 1_000

export interface LaneConnectionsDeps {
  readonly clock: Clock
  /** Whether this side began the call. The numbers of the two sides' lanes differ. */
  readonly isCaller: boolean
  /** A connection of the tab's, or `null` if none is to spare. `end` is called when it is needed elsewhere. */
  readonly take: (end: () => void) => RtcConnection | null
  readonly release: (connection: RtcConnection) => void
  /** Sends a signal over the connection that is open already. */
  readonly send: (signal: string) => void
  /** A lane is open. The returned function is called when it has ended. */
  readonly onOpen: (channel: DataChannel) => () => void
  /** The other side sent what no honest peer sends. */
  readonly onMisbehaviour: () => void
}

interface LaneConnection {
  readonly connection: RtcConnection
  readonly channel: DataChannel
  end(): void
}

/**
 * The connections of lanes: further connections to a peer to which one is open. Their descriptions go over that one, complete with all
 * addresses, so the server has no part in them.
 */
export class LaneConnections {
  readonly #deps: LaneConnectionsDeps
  readonly #lanes = new Map<number, LaneConnection>()
  #offered = 0

  constructor(deps: LaneConnectionsDeps) {
    this.#deps = deps
  }

  /** Begins to open all lanes of this side together, because each needs several round trips. As many as connections are to spare. */
  openAll(): void {
    const first = this.#deps.isCaller ? 1 : 1 + LANES_MAX
    for (let number = first; number < first + LANES_MAX; number++) {
      const lane = this.#begin(number)
      if (lane !== null) void this.#describe(number, 'offer', lane)
    }
  }

  handleSignal(text: string): void {
    const signal = readSignal(text)
    if (signal === null) {
      this.#deps.onMisbehaviour()
      return
    }
    const { lane: number, kind, sdp } = signal
    const isOwn = number > LANES_MAX !== this.#deps.isCaller
    const known = this.#lanes.get(number)
    if (kind === 'answer') {
      if (isOwn && known !== undefined) known.connection.setRemoteDescription({ type: kind, sdp }).catch(() => known.end())
      return
    }
    if (isOwn || known !== undefined || ++this.#offered > OFFERS_MAX) {
      this.#deps.onMisbehaviour()
      return
    }
    const lane = this.#begin(number)
    if (lane === null) return
    const { connection } = lane
    connection.setRemoteDescription({ type: kind, sdp }).then(
      () => this.#describe(number, 'answer', lane),
      () => lane.end(),
    )
  }

  close(): void {
    for (const lane of [...this.#lanes.values()]) lane.end()
  }

  #begin(number: number): LaneConnection | null {
    const { clock, take, release, onOpen } = this.#deps
    let lane: LaneConnection | null = null
    const connection = take(() => lane?.end())
    if (connection === null) return null
    const channel = connection.createDataChannel('watchfire', { negotiated: true, id: 0 })
    const stopTimeout = clock.after(OPEN_MAX, () => {
      if (channel.readyState !== 'open') lane?.end()
    })
    let onEnd: (() => void) | null = null
    const end = () => {
      if (!this.#lanes.delete(number)) return
      stopTimeout()
      release(connection)
      onEnd?.()
    }
    lane = { connection, channel, end }
    this.#lanes.set(number, lane)
    channel.addEventListener('open', () => {
      onEnd = onOpen(channel)
    })
    channel.addEventListener('close', end)
    connection.addEventListener('connectionstatechange', () => {
      // The first connection restarts when the network changes. What a lane had is sent again at once, on those that are left.
      if (connection.connectionState === 'disconnected' || connection.connectionState === 'failed') end()
    })
    return lane
  }

  async #describe(number: number, kind: 'offer' | 'answer', { connection, end }: LaneConnection): Promise<void> {
    try {
      await connection.setLocalDescription()
      await this.#gathered(connection)
      const sdp = connection.localDescription?.sdp
      if (sdp !== undefined) this.#deps.send(JSON.stringify({ lane: number, kind, sdp }))
    } catch {
      end()
    }
  }

  #gathered(connection: RtcConnection): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if (connection.iceGatheringState === 'complete') resolve()
      }
      connection.addEventListener('icegatheringstatechange', check)
      this.#deps.clock.after(GATHER_MAX, resolve)
      check()
    })
  }
}

function readSignal(text: string): { lane: number; kind: 'offer' | 'answer'; sdp: string } | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  const { lane, kind, sdp } = fieldsOf(value)
  if (!isCount(lane) || lane < 1 || lane > 2 * LANES_MAX) return null
  return (kind === 'offer' || kind === 'answer') && isOfDataAlone(sdp) ? { lane, kind, sdp } : null
}
