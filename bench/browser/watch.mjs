// What a tab says of itself while it is measured. It runs in the tab, before the app, and uses nothing from outside.

/** Remembers each connection, what goes over it and past it, and how much of the page is here. */
export function watchTab({ sampleMs, contentBytesMin }) {
  const nowOf = () => performance.timeOrigin + performance.now()
  const lines = []
  const sending = new Map()
  const relayed = { contentBytes: 0, wordBytes: 0, contentBytesWhileDirect: 0, messagesWhileDirect: 0 }
  const samples = []
  let doneAt = null

  const Browser = window.RTCPeerConnection
  window.RTCPeerConnection = class extends Browser {
    constructor(configuration) {
      super(configuration)
      this.watched = { line: this, peer: null, channel: null, upAt: null, sent: 0, received: 0 }
      lines.push(this.watched)
      this.addEventListener('connectionstatechange', () => this.#follow())
    }

    createDataChannel(...options) {
      const channel = super.createDataChannel(...options)
      this.watched.channel = channel
      channel.addEventListener('open', () => this.#follow())
      return channel
    }

    #follow() {
      if (isUp(this.watched)) this.watched.upAt ??= nowOf()
    }
  }

  function isUp({ line, channel }) {
    return line.connectionState === 'connected' && channel?.readyState === 'open'
  }

  const send = WebSocket.prototype.send
  WebSocket.prototype.send = function (frame) {
    if (frame instanceof ArrayBuffer) look(new Uint8Array(frame))
    else if (ArrayBuffer.isView(frame)) look(new Uint8Array(frame.buffer, frame.byteOffset, frame.byteLength))
    send.call(this, frame)
  }

  /** A binary push: its kind, four lengths, then join_ref, ref, topic, event and payload. */
  function look(frame) {
    const text = new TextDecoder()
    const [, joinRef = 0, ref = 0, topic = 0, event = 0] = frame
    const from = 5 + joinRef + ref + topic
    const name = text.decode(frame.subarray(from, from + event))
    const payload = frame.subarray(from + event)
    const peer = [...payload.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
    if (name === 'relay') lookAtSegment(peer, payload.subarray(8))
    else if (name === 'signal') lookAtSignal(peer, JSON.parse(text.decode(payload.subarray(8))))
  }

  function lookAtSegment(peer, segment) {
    const view = new DataView(segment.buffer, segment.byteOffset)
    const [id, offset, total] = [view.getUint32(0), view.getUint32(4), view.getUint32(8)]
    const bytes = segment.length - 12
    const isContent = total >= contentBytesMin
    const key = `${peer}/${id}`
    let message = sending.get(key)
    if (message === undefined) {
      message = { offsets: new Set(), isDirect: false, bytes: 0 }
      sending.set(key, message)
      if (isContent) judge(peer, message)
    }
    // What the server refused comes again.
    if (message.offsets.has(offset)) return
    message.offsets.add(offset)
    message.bytes += bytes
    if (!isContent) relayed.wordBytes += bytes
    else {
      relayed.contentBytes += bytes
      if (message.isDirect) relayed.contentBytesWhileDirect += bytes
    }
  }

  /**
   * Whether a message begins by relay although there is a direct way: what was begun before that one came up ends there.
   * What a way carried that is given up goes by relay, too, a moment before the connection is closed.
   */
  function judge(peer, message) {
    const way = lines.find((each) => each.peer === peer && isUp(each))
    if (way === undefined) return
    setTimeout(() => {
      if (!isUp(way)) return
      message.isDirect = true
      relayed.messagesWhileDirect++
      relayed.contentBytesWhileDirect += message.bytes
    })
  }

  /** Whom a connection leads to is told by the description of it that is sent to them. */
  function lookAtSignal(peer, { sdp = '' }) {
    const [name] = sdp.match(/a=ice-ufrag:\S+/) ?? []
    if (name === undefined) return
    for (const each of lines) if (each.line.localDescription?.sdp.includes(name)) each.peer = peer
  }

  async function measure(each) {
    try {
      for (const told of (await each.line.getStats()).values()) {
        if (told.type !== 'data-channel') continue
        each.sent = Math.max(each.sent, told.bytesSent)
        each.received = Math.max(each.received, told.bytesReceived)
      }
    } catch {
      // It is closed: what it carried was told before.
    }
  }

  async function sample() {
    await Promise.all(lines.map(measure))
    const sum = (of) => lines.reduce((total, each) => total + of(each), 0)
    const told = {
      at: nowOf(), share: shareOf(), sent: sum(({ sent }) => sent), received: sum(({ received }) => received),
      relayed: relayed.contentBytes, up: lines.filter(isUp).length,
    }
    samples.push(told)
    return told
  }

  function isHere() {
    return document.querySelector('input[aria-label="Link to this page"]') !== null
  }

  function shareOf() {
    if (isHere()) return 1
    const bar = document.querySelector('progress')
    return bar === null || !bar.hasAttribute('value') ? 0 : bar.value / bar.max
  }

  const looking = setInterval(() => {
    if (!isHere()) return
    doneAt = nowOf()
    clearInterval(looking)
  }, 50)
  setInterval(sample, sampleMs)

  window.watched = {
    look: () => ({ share: shareOf(), doneAt, up: lines.filter(isUp).length }),
    tell: async () => {
      await sample()
      return { doneAt, samples, relayed, lines: lines.map(({ peer, upAt, sent, received }) => ({ peer, upAt, sent, received })) }
    },
  }
}
