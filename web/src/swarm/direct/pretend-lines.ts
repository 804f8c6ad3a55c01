import type { Clock } from '../api.ts'
import type { DataChannel, Line } from './line.ts'

const LATENCY = 3
const DISCONNECTED_AFTER = 5000
const FAILED_AFTER = 15_000

/** A network of lines, in memory and pretend time. */
export class PretendLines {
  readonly clock: Clock
  readonly lines: PretendLine[] = []
  /** Bytes that arrived over all data channels. */
  carriedBytes = 0
  /** Nothing arrives any more, and nobody is told. */
  isCut = false
  /** What arrives later, since the tabs it goes to have too much to do; `null` while it arrives at once. */
  #late: (() => void)[] | null = null
  /** No line ever comes up. */
  isBlocked = false
  /** How many the browser makes. */
  max = Infinity

  constructor(clock: Clock) {
    this.clock = clock
  }

  readonly make = (configuration: RTCConfiguration): PretendLine => {
    if (this.lines.length >= this.max) throw new DOMException('too many', 'UnknownError')
    const line = new PretendLine(this, this.lines.length, configuration)
    this.lines.push(line)
    return line
  }

  get open(): PretendLine[] {
    return this.lines.filter(({ connectionState }) => connectionState === 'connected')
  }

  /** All tabs are too busy to hear anything, until they are not. */
  holdUp(): void {
    this.#late = []
  }

  goOn(): void {
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

  /** The network breaks under all lines. */
  cut(): void {
    this.isCut = true
    const broken = this.open
    const become = (state: RTCPeerConnectionState) => {
      if (this.isCut) for (const line of broken) line.become(state)
    }
    this.clock.after(DISCONNECTED_AFTER, () => become('disconnected'))
    this.clock.after(FAILED_AFTER, () => become('failed'))
  }

  /** It carries again. */
  heal(): void {
    this.isCut = false
    for (const line of this.lines) if (line.connectionState === 'disconnected') line.become('connected')
  }
}

export class PretendLine extends EventTarget implements Line {
  readonly configuration: RTCConfiguration
  readonly channel: PretendChannel
  signalingState: RTCSignalingState = 'stable'
  connectionState: RTCPeerConnectionState = 'new'
  localDescription: { sdp: string } | null = null
  other: PretendLine | null = null
  candidates = 0
  /** Each description is another one, as in browsers. */
  #version = 0
  readonly #net: PretendLines
  readonly #number: number

  constructor(net: PretendLines, number: number, configuration: RTCConfiguration) {
    super()
    this.#net = net
    this.#number = number
    this.configuration = configuration
    this.channel = new PretendChannel(net, this)
  }

  createDataChannel(): PretendChannel {
    return this.channel
  }

  async setLocalDescription(): Promise<void> {
    await Promise.resolve()
    if (this.signalingState === 'closed') throw new DOMException('closed', 'InvalidStateError')
    const origin = `o=- ${this.#number} ${++this.#version} IN IP4 127.0.0.1`
    this.localDescription = { sdp: `v=0\r\n${origin}\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=line:${this.#number}\r\n` }
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
    this.other = this.#net.lines[Number(number)] ?? null
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
    // As in browsers, who closes it hears of nothing.
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
    const candidate = { candidate: `candidate:1 1 udp 1 192.0.2.1 ${port} typ host`, sdpMid: '0', sdpMLineIndex: 0 }
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

export class PretendChannel extends EventTarget implements DataChannel {
  readyState: RTCDataChannelState = 'connecting'
  bufferedAmount = 0
  bufferedAmountLowThreshold = 0
  binaryType: BinaryType = 'blob'
  readonly #net: PretendLines
  readonly #line: PretendLine

  constructor(net: PretendLines, line: PretendLine) {
    super()
    this.#net = net
    this.#line = line
  }

  send(data: Uint8Array<ArrayBuffer>): void {
    if (this.readyState !== 'open') throw new DOMException('not open', 'InvalidStateError')
    this.bufferedAmount += data.length
    const { buffer } = data.slice()
    this.#net.pass(() => {
      if (this.#net.isCut) return
      const before = this.bufferedAmount
      this.bufferedAmount -= buffer.byteLength
      const low = this.bufferedAmountLowThreshold
      if (before > low && this.bufferedAmount <= low) this.dispatchEvent(new Event('bufferedamountlow'))
      this.#net.carriedBytes += buffer.byteLength
      this.#line.other?.channel.arrive(buffer)
    })
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
