// Observes a tab during the measurement. The function runs in the tab before the app, and uses nothing from outside.

/** Records the connections, the bytes over them and over the relay, and the share of the page that has arrived. */
export function watchTab({ sampleMs, contentBytesMin }) {
  const now = () => performance.timeOrigin + performance.now()
  const connections = []
  const sending = new Map()
  const relayed = { contentBytes: 0, protocolBytes: 0, contentBytesWhileDirect: 0, messagesWhileDirect: 0 }
  const samples = []
  let doneAt = null

  const NativeConnection = window.RTCPeerConnection
  window.RTCPeerConnection = class extends NativeConnection {
    constructor(configuration) {
      super(configuration)
      this.watched = { connection: this, peer: null, channel: null, openedAt: null, sent: 0, received: 0 }
      connections.push(this.watched)
      this.addEventListener('connectionstatechange', () => this.#noteOpen())
    }

    createDataChannel(label, options) {
      const channel = super.createDataChannel(label, options)
      this.watched.channel = channel
      channel.addEventListener('open', () => this.#noteOpen())
      return channel
    }

    #noteOpen() {
      if (isOpen(this.watched)) this.watched.openedAt ??= now()
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
    const bytes = segment.length - 12
    const isContent = total >= contentBytesMin
    const key = `${peer}/${id}`
    let message = sending.get(key)
    if (message === undefined) {
      message = { offsets: new Set(), isDirect: false, bytes: 0 }
      sending.set(key, message)
      if (isContent) checkDirect(peer, message)
    }
    // The app sends a segment again after the server refused it.
    if (message.offsets.has(offset)) return
    message.offsets.add(offset)
    message.bytes += bytes
    if (!isContent) relayed.protocolBytes += bytes
    else {
      relayed.contentBytes += bytes
      if (message.isDirect) relayed.contentBytesWhileDirect += bytes
    }
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
      relayed.messagesWhileDirect++
      relayed.contentBytesWhileDirect += message.bytes
    })
  }

  /** The description that is sent to a peer shows which connection leads to it. */
  function matchSignal(peer, { sdp = '' }) {
    const [name] = sdp.match(/a=ice-ufrag:\S+/) ?? []
    if (name === undefined) return
    for (const each of connections) if (each.connection.localDescription?.sdp.includes(name)) each.peer = peer
  }

  async function measure(each) {
    try {
      for (const stats of (await each.connection.getStats()).values()) {
        if (stats.type !== 'data-channel') continue
        each.sent = Math.max(each.sent, stats.bytesSent)
        each.received = Math.max(each.received, stats.bytesReceived)
      }
    } catch {
      // The connection is closed; earlier samples have its counters.
    }
  }

  async function sample() {
    await Promise.all(connections.map(measure))
    const sum = (of) => connections.reduce((total, each) => total + of(each), 0)
    const taken = {
      at: now(),
      share: shareOf(),
      sent: sum(({ sent }) => sent),
      received: sum(({ received }) => received),
      relayed: relayed.contentBytes,
      open: connections.filter(isOpen).length,
    }
    samples.push(taken)
  }

  function isComplete() {
    return document.querySelector('input[aria-label="Link to this page"]') !== null
  }

  function shareOf() {
    if (isComplete()) return 1
    const bar = document.querySelector('progress')
    return bar === null || !bar.hasAttribute('value') ? 0 : bar.value / bar.max
  }

  const polling = setInterval(() => {
    if (!isComplete()) return
    doneAt = now()
    clearInterval(polling)
  }, 50)
  setInterval(sample, sampleMs)

  window.watched = {
    status: () => ({ share: shareOf(), doneAt, open: connections.filter(isOpen).length }),
    report: async () => {
      await sample()
      return {
        doneAt,
        samples,
        relayed,
        connections: connections.map(({ peer, openedAt, sent, received }) => ({ peer, openedAt, sent, received })),
      }
    },
  }
}
