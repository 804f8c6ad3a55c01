import type { Clock } from '../src/swarm/clock.ts'
import type { DataChannel, RtcConnection } from '../src/swarm/direct/rtc-interfaces.ts'

const LATENCY = 3
const DISCONNECTED_AFTER = 5000
const FAILED_AFTER = 15_000

/** A network of fake connections, in memory and on a fake clock. */
export class FakeRtcNetwork {
  readonly clock: Clock
  readonly connections: FakeRtcConnection[] = []
  /** Bytes that arrived over all data channels. */
  carriedBytes = 0
  /** Offers that gave way to the offer of the other side on the same connection. */
  rollbacks = 0
  /** Nothing arrives any more, and neither side is notified. */
  isCut = false
  /** Events that wait because the tabs are busy. `null` while they are not. */
  #late: (() => void)[] | null = null
  /** No connection ever comes up. */
  isBlocked = false
  /** A candidate of a connection, by the order in which it was made: it has two. */
  candidateOf = (_connection: number, port: number): string => `candidate:1 1 udp 1 192.0.2.1 ${port} typ host`
  /** The most connections that the browser makes. */
  max = Infinity

  constructor(clock: Clock) {
    this.clock = clock
  }

  readonly make = (configuration: RTCConfiguration): FakeRtcConnection => {
    if (this.connections.length >= this.max) throw new DOMException('too many', 'UnknownError')
    const connection = new FakeRtcConnection(this, this.connections.length, configuration)
    this.connections.push(connection)
    return connection
  }

  get open(): FakeRtcConnection[] {
    return this.connections.filter(({ connectionState }) => connectionState === 'connected')
  }

  /** Frames that were sent while the network was broken, in order. */
  readonly unsent: (() => void)[] = []

  /** All tabs are busy until `resume`. */
  holdUp(): void {
    this.#late = []
  }

  resume(): void {
    const late = this.#late ?? []
    this.#late = null
    for (const arrive of late) this.pass(arrive)
  }

  pass(arrive: () => void): void {
    this.clock.after(LATENCY, () => {
      if (this.#late === null) arrive()
      else this.#late.push(arrive)
    })
  }

  /** The network breaks under all connections. */
  cut(): void {
    this.isCut = true
    const broken = this.open
    const become = (state: RTCPeerConnectionState) => {
      if (this.isCut) for (const connection of broken) connection.become(state)
    }
    this.clock.after(DISCONNECTED_AFTER, () => become('disconnected'))
    this.clock.after(FAILED_AFTER, () => become('failed'))
  }

  /** The network works again. */
  heal(): void {
    this.isCut = false
    for (const carry of this.unsent.splice(0)) carry()
    for (const connection of this.connections) if (connection.connectionState === 'disconnected') connection.become('connected')
  }
}

export class FakeRtcConnection extends EventTarget implements RtcConnection {
  readonly configuration: RTCConfiguration
  readonly channel: FakeDataChannel
  signalingState: RTCSignalingState = 'stable'
  connectionState: RTCPeerConnectionState = 'new'
  readonly iceGatheringState = 'complete'
  #localDescription: { sdp: string } | null = null
  other: FakeRtcConnection | null = null
  candidates = 0
  /** Each description is different, as in browsers. */
  #version = 0
  readonly #net: FakeRtcNetwork
  readonly #number: number

  constructor(net: FakeRtcNetwork, number: number, configuration: RTCConfiguration) {
    super()
    this.#net = net
    this.#number = number
    this.configuration = configuration
    this.channel = new FakeDataChannel(net, this)
  }

  /** As in Firefox, the description of a closed connection cannot be read. */
  get localDescription(): { sdp: string } | null {
    if (this.signalingState === 'closed') throw new DOMException('Peer connection is closed', 'InvalidStateError')
    return this.#localDescription
  }

  createDataChannel(): FakeDataChannel {
    return this.channel
  }

  async setLocalDescription(): Promise<void> {
    await Promise.resolve()
    if (this.signalingState === 'closed') throw new DOMException('closed', 'InvalidStateError')
    const origin = `o=- ${this.#number} ${++this.#version} IN IP4 127.0.0.1`
    this.#localDescription = { sdp: `v=0\r\n${origin}\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=line:${this.#number}\r\n` }
    this.signalingState = this.signalingState === 'have-remote-offer' ? 'stable' : 'have-local-offer'
    for (const port of [1, 2]) this.#net.clock.after(port, () => this.#find(port))
    this.#meet()
  }

  async setRemoteDescription({ type, sdp }: { type: string; sdp: string }): Promise<void> {
    await Promise.resolve()
    if (this.signalingState === 'closed') throw new DOMException('closed', 'InvalidStateError')
    const number = /a=line:(\d+)/.exec(sdp)?.[1]
    if (number === undefined) throw new DOMException('no description', 'OperationError')
    if (type === 'answer' && this.signalingState !== 'have-local-offer') throw new DOMException('stable', 'InvalidStateError')
    if (type === 'offer' && this.signalingState === 'have-local-offer') this.#net.rollbacks++
    this.other = this.#net.connections[Number(number)] ?? null
    this.signalingState = type === 'answer' ? 'stable' : 'have-remote-offer'
    this.#meet()
  }

  async addIceCandidate({ candidate }: RTCIceCandidateInit): Promise<void> {
    await Promise.resolve()
    if (this.other === null) throw new DOMException('no remote description', 'InvalidStateError')
    if (candidate?.includes('192.0.2.') !== true) throw new DOMException('no candidate', 'OperationError')
    this.candidates++
  }

  restartIce(): void {}

  close(): void {
    if (this.signalingState === 'closed') return
    this.signalingState = 'closed'
    // As in browsers, the side that closes gets no event.
    this.connectionState = 'closed'
    this.channel.readyState = 'closed'
    this.#net.clock.after(LATENCY, () => {
      if (!this.#net.isCut) this.other?.channel.end()
    })
  }

  become(state: RTCPeerConnectionState): void {
    if (this.connectionState === state || this.connectionState === 'closed') return
    this.connectionState = state
    if (state === 'connected') this.channel.begin()
    this.dispatchEvent(new Event('connectionstatechange'))
  }

  #find(port: number): void {
    const candidate = { candidate: this.#net.candidateOf(this.#number, port), sdpMid: '0', sdpMLineIndex: 0 }
    this.dispatchEvent(Object.assign(new Event('icecandidate'), { candidate }))
  }

  #meet(): void {
    const { other } = this
    if (other === null || other.other !== this || this.#net.isBlocked) return
    if (this.signalingState !== 'stable' || other.signalingState !== 'stable') return
    this.#net.clock.after(LATENCY, () => {
      if (this.#net.isCut) return
      this.become('connected')
      other.become('connected')
    })
  }
}

export class FakeDataChannel extends EventTarget implements DataChannel {
  readyState: RTCDataChannelState = 'connecting'
  bufferedAmount = 0
  bufferedAmountLowThreshold = 0
  binaryType: BinaryType = 'blob'
  readonly #net: FakeRtcNetwork
  readonly #connection: FakeRtcConnection

  constructor(net: FakeRtcNetwork, connection: FakeRtcConnection) {
    super()
    this.#net = net
    this.#connection = connection
  }

  send(data: Uint8Array<ArrayBuffer>): void {
    if (this.readyState !== 'open') throw new DOMException('not open', 'InvalidStateError')
    this.bufferedAmount += data.length
    const { buffer } = data.slice()
    this.#net.pass(() => {
      if (this.#net.isCut) {
        // SCTP repeats them until the network works again.
        this.#net.unsent.push(() => this.#carry(buffer))
        return
      }
      this.#carry(buffer)
    })
  }

  #carry(buffer: ArrayBuffer): void {
    const before = this.bufferedAmount
    this.bufferedAmount -= buffer.byteLength
    const low = this.bufferedAmountLowThreshold
    if (before > low && this.bufferedAmount <= low) this.dispatchEvent(new Event('bufferedamountlow'))
    this.#net.carriedBytes += buffer.byteLength
    this.#connection.other?.channel.arrive(buffer)
  }

  arrive(data: unknown): void {
    if (this.readyState === 'open') this.dispatchEvent(new MessageEvent('message', { data }))
  }

  begin(): void {
    if (this.readyState !== 'connecting') return
    this.readyState = 'open'
    this.dispatchEvent(new Event('open'))
  }

  end(): void {
    if (this.readyState === 'closed') return
    this.readyState = 'closed'
    this.dispatchEvent(new Event('close'))
  }
}
