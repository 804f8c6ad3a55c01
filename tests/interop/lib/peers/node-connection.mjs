// The part of `RTCPeerConnection` that the web client uses (`web/packages/pages/src/swarm/direct/rtc-interfaces.ts`), implemented with
// libdatachannel: real ICE, DTLS and SCTP without a browser.

import { PeerConnection } from 'node-datachannel'

/** A connection to one peer, over loopback only. */
export class NodeConnection extends EventTarget {
  #configuration
  #native
  #channel = null
  #isClosed = false

  constructor({ iceServers = [] } = {}) {
    super()
    this.#configuration = { iceServers: iceServers.flatMap(({ urls }) => urls), bindAddress: '127.0.0.1', disableAutoNegotiation: true }
    this.#native = this.#begin()
  }

  get signalingState() {
    return this.#isClosed ? 'closed' : this.#native.signalingState()
  }

  get connectionState() {
    return this.#isClosed ? 'closed' : this.#native.state()
  }

  get localDescription() {
    return this.#isClosed ? null : this.#native.localDescription()
  }

  /** Bytes of all messages of its channel. */
  get sentBytes() {
    return this.#channel?.sentBytes ?? 0
  }

  get receivedBytes() {
    return this.#channel?.receivedBytes ?? 0
  }

  createDataChannel(label, options) {
    this.#channel = new NodeChannel((native) => native.createDataChannel(label, options))
    this.#channel.begin(this.#native)
    return this.#channel
  }

  async setLocalDescription() {
    this.#assertOpen()
    this.#native.setLocalDescription()
  }

  async setRemoteDescription({ type, sdp }) {
    this.#assertOpen()
    if (type === 'offer' && this.#native.signalingState() === 'have-local-offer') this.#rollBack()
    try {
      this.#native.setRemoteDescription(type === 'offer' ? withoutCandidates(sdp) : sdp, type)
    } catch (error) {
      // A browser connection ends when it is closed; this one ends when it has failed, and reports that later.
      if (['failed', 'closed'].includes(this.#native.state())) this.#fail()
      throw error
    }
  }

  async addIceCandidate({ candidate, sdpMid }) {
    this.#assertOpen()
    // Ignored, as in a browser; the library would end the process.
    const remote = this.#native.remoteDescription()
    if (remote === null) throw new DOMException('no remote description', 'InvalidStateError')
    if (remote.type !== 'offer') this.#native.addRemoteCandidate(candidate, sdpMid ?? '0')
  }

  /** The library cannot restart ICE after a failure, so the call ends and another one starts. */
  restartIce() {
    this.close()
  }

  close() {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#native.close()
  }

  #begin() {
    const native = new PeerConnection('', this.#configuration)
    // A closed or replaced connection may still emit events.
    const emit = (event) => native === this.#native && !this.#isClosed && this.dispatchEvent(event)
    native.onStateChange(() => emit(new Event('connectionstatechange')))
    native.onLocalCandidate((line, sdpMid) => {
      // The library emits a description line; browsers emit the attribute inside it.
      const candidate = line.replace(/^a=/, '')
      emit(Object.assign(new Event('icecandidate'), { candidate: { candidate, sdpMid, sdpMLineIndex: null } }))
    })
    return native
  }

  /**
   * Rolls an offer back. The library's own rollback leaves ICE in the controlling role. The other side has the same role,
   * starts DTLS before it knows the remote fingerprint, and fails.
   */
  #rollBack() {
    const before = this.#native
    this.#native = this.#begin()
    this.#channel?.begin(this.#native)
    before.close()
  }

  #fail() {
    this.close()
    this.dispatchEvent(new Event('connectionstatechange'))
  }

  #assertOpen() {
    if (this.#isClosed) throw new DOMException('closed', 'InvalidStateError')
  }
}

class NodeChannel extends EventTarget {
  binaryType = 'arraybuffer'
  #make
  #native = null
  #readyState = 'connecting'
  #lowBytes = 0
  sentBytes = 0
  receivedBytes = 0

  constructor(make) {
    super()
    this.#make = make
  }

  /** Attaches the channel to this connection. */
  begin(connection) {
    const native = this.#make(connection)
    this.#native = native
    native.setBufferedAmountLowThreshold(this.#lowBytes)
    native.onOpen(() => this.#setState(native, 'open'))
    native.onClosed(() => this.#setState(native, 'close'))
    native.onBufferedAmountLow(() => this.dispatchEvent(new Event('bufferedamountlow')))
    native.onMessage((message) => {
      this.receivedBytes += message.byteLength
      this.dispatchEvent(new MessageEvent('message', { data: ownBuffer(message) }))
    })
  }

  get readyState() {
    return this.#readyState
  }

  get bufferedAmount() {
    return this.#readyState === 'open' ? this.#native.bufferedAmount() : 0
  }

  set bufferedAmountLowThreshold(bytes) {
    this.#lowBytes = bytes
    this.#native.setBufferedAmountLowThreshold(bytes)
  }

  send(data) {
    if (this.#readyState !== 'open') throw new DOMException('not open', 'InvalidStateError')
    this.#native.sendMessageBinary(data)
    this.sentBytes += data.byteLength
  }

  #setState(native, event) {
    if (native !== this.#native) return
    this.#readyState = event === 'open' ? 'open' : 'closed'
    this.dispatchEvent(new Event(event))
  }
}

/**
 * The answering side waits for connectivity checks. If it sent checks itself, DTLS of the offering side could start while
 * the answer is still being read, before the library knows the fingerprint to expect, and fail.
 */
function withoutCandidates(sdp) {
  return sdp
    .split('\r\n')
    .filter((line) => !/^a=(candidate:|end-of-candidates)/.test(line))
    .join('\r\n')
}

function ownBuffer(message) {
  if (message instanceof ArrayBuffer) return message
  const isWhole = message.byteOffset === 0 && message.byteLength === message.buffer.byteLength
  return isWhole ? message.buffer : message.buffer.slice(message.byteOffset, message.byteOffset + message.byteLength)
}
