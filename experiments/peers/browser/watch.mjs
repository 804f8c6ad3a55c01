// Observes a tab during the measurement. The function runs in the tab before the app, and uses nothing from outside.

/** Records the connections, and the bytes over them and over the relay. Calls `labDone` once the tab has the whole page. */
export function watchTab({ contentBytesMin }) {
  const connections = []
  const sending = new Map()
  const relayed = { contentBytes: 0, contentBytesWhileDirect: 0 }

  const NativeConnection = window.RTCPeerConnection
  window.RTCPeerConnection = class extends NativeConnection {
    constructor(configuration) {
      super(configuration)
      this.watched = { connection: this, peer: null, channel: null, hasOpened: false, sent: 0, received: 0 }
      connections.push(this.watched)
      this.addEventListener('connectionstatechange', () => this.#noteOpen())
    }

    createDataChannel(label, options) {
      const channel = super.createDataChannel(label, options)
      this.watched.channel = channel
      channel.addEventListener('open', () => this.#noteOpen())
      channel.addEventListener('message', ({ data }) => {
        this.watched.received += data.byteLength
      })
      channel.send = (data) => {
        RTCDataChannel.prototype.send.call(channel, data)
        this.watched.sent += data.byteLength
      }
      return channel
    }

    #noteOpen() {
      if (isOpen(this.watched)) this.watched.hasOpened = true
    }
  }

  function isOpen({ connection, channel }) {
    return connection.connectionState === 'connected' && channel?.readyState === 'open'
  }

  const send = WebSocket.prototype.send
  WebSocket.prototype.send = function (frame) {
    if (frame instanceof ArrayBuffer) inspect(new Uint8Array(frame))
    else if (ArrayBuffer.isView(frame)) inspect(new Uint8Array(frame.buffer, frame.byteOffset, frame.byteLength))
    send.call(this, frame)
  }

  /** A binary push: kind, four lengths, then join_ref, ref, topic, event and payload. */
  function inspect(frame) {
    const text = new TextDecoder()
    const [, joinRef = 0, ref = 0, topic = 0, event = 0] = frame
    const from = 5 + joinRef + ref + topic
    const name = text.decode(frame.subarray(from, from + event))
    const payload = frame.subarray(from + event)
    const peer = [...payload.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
    if (name === 'relay') countSegment(peer, payload.subarray(8))
    else if (name === 'signal') matchSignal(peer, JSON.parse(text.decode(payload.subarray(8))))
  }

  function countSegment(peer, segment) {
    const view = new DataView(segment.buffer, segment.byteOffset)
    const [id, offset, total] = [view.getUint32(0), view.getUint32(4), view.getUint32(8)]
    if (total < contentBytesMin) return
    const bytes = segment.length - 12
    const key = `${peer}/${id}`
    let message = sending.get(key)
    if (message === undefined) {
      message = { offsets: new Set(), isDirect: false, bytes: 0 }
      sending.set(key, message)
      checkDirect(peer, message)
    }
    // The app sends a segment again after the server refused it.
    if (message.offsets.has(offset)) return
    message.offsets.add(offset)
    message.bytes += bytes
    relayed.contentBytes += bytes
    if (message.isDirect) relayed.contentBytesWhileDirect += bytes
  }

  /**
   * Notes a message that begins by relay while a direct connection is open. Messages that began before it opened may
   * finish by relay. The messages of a failing connection move to the relay just before the app closes it.
   */
  function checkDirect(peer, message) {
    const direct = connections.find((each) => each.peer === peer && isOpen(each))
    if (direct === undefined) return
    setTimeout(() => {
      if (!isOpen(direct)) return
      message.isDirect = true
      relayed.contentBytesWhileDirect += message.bytes
    })
  }

  /** The description that is sent to a peer shows which connection leads to it. */
  function matchSignal(peer, { sdp = '' }) {
    const [name] = sdp.match(/a=ice-ufrag:\S+/) ?? []
    if (name === undefined) return
    for (const each of connections) if (each.connection.localDescription?.sdp.includes(name)) each.peer = peer
  }

  function isComplete() {
    return document.querySelector('.status-panel.held') !== null
  }

  function shareOf() {
    if (isComplete()) return 1
    const bar = document.querySelector('progress')
    return bar === null || !bar.hasAttribute('value') ? 0 : bar.value / bar.max
  }

  const polling = setInterval(() => {
    if (!isComplete()) return
    clearInterval(polling)
    window.labDone()
  }, 50)

  window.watched = {
    share: shareOf,
    report: () => ({
      relayed,
      connections: connections.map(({ hasOpened, sent, received }) => ({ hasOpened, sent, received })),
    }),
  }
}
