// Observes which path a page takes to its content, and what it says about it. The function runs in the tab before the app, and
// uses nothing from outside.

/** Records seconds since the visit began: until the first content by relay, until a direct connection, and until a reason is shown. */
export function watchPath({ contentBytesMin }) {
  const REASONS = {
    'Your network lets no UDP through': 'no UDP here',
    'The other network lets no UDP through': 'no UDP there',
    'Neither network lets UDP through': 'no UDP on both sides',
    'Your router uses another port': 'symmetric NAT here',
    'The other router uses another port': 'symmetric NAT there',
    'Both routers use another port': 'symmetric NAT on both sides',
    'One network has only IPv6': 'no common IP version',
    'a firewall or router blocks': 'unknown reason',
    'hides its address': 'hidden address',
    'It does not answer': 'no answer',
  }
  const seconds = () => performance.now() / 1000
  const first = { relay: null, direct: null, shown: null, whole: null }
  /** When the page first said so, by reason. */
  const reasons = new Map()
  /** The longest time in which no content arrived between the first and the last. */
  let longestWait = 0
  let moved = { share: 0, at: 0 }

  const NativeSocket = window.WebSocket
  window.WebSocket = class extends NativeSocket {
    constructor(url, protocols) {
      super(url, protocols)
      this.addEventListener('message', ({ data }) => {
        if (data instanceof ArrayBuffer) noteRelayed(new Uint8Array(data))
      })
    }
  }

  /** A binary push (kind 0) or broadcast (2): lengths, then topic, event and payload: a peer, a message, an offset, a length. */
  function noteRelayed(frame) {
    if (first.relay !== null || (frame[0] !== 0 && frame[0] !== 2)) return
    const lengths = frame.subarray(1, frame[0] === 0 ? 4 : 3)
    const event = lengths[lengths.length - 1] ?? 0
    const from = 1 + lengths.length + lengths.reduce((sum, each) => sum + each, 0) - event
    if (new TextDecoder().decode(frame.subarray(from, from + event)) !== 'relay') return
    const payload = frame.subarray(from + event)
    const total = new DataView(payload.buffer, payload.byteOffset).getUint32(16)
    if (total >= contentBytesMin) first.relay = seconds()
  }

  function look() {
    const connections = window.watched.report().connections
    noteShare(window.watched.share(), seconds())
    if (first.direct === null && connections.some(({ hasOpened }) => hasOpened)) first.direct = seconds()
    if (first.whole === null && moved.share === 1) first.whole = seconds()
    const shown = [...document.querySelectorAll('.transfers .how')].map((cell) => cell.textContent ?? '').join(' ')
    if (shown.includes('Direct, without the server.')) first.shown ??= seconds()
    for (const [words, reason] of Object.entries(REASONS)) {
      if (shown.includes(words) && !reasons.has(reason)) reasons.set(reason, seconds())
    }
  }
  setInterval(look, 20)

  function noteShare(share, at) {
    if (share === moved.share) return
    if (moved.share > 0) longestWait = Math.max(longestWait, at - moved.at)
    moved = { share, at }
  }

  window.path = {
    isKnown: () => first.direct !== null || reasons.size > 0,
    report: () => {
      const figures = { 'path: whole page after, s': first.whole, 'path: longest time without content, s': longestWait }
      const isDirect = first.direct !== null
      figures[`path: ${isDirect ? 'direct' : 'relay'} after, s`] = isDirect ? first.direct : first.relay
      // When the connection came up after all, the reasons that the page gave before were wrong.
      if (!isDirect) for (const [reason, at] of reasons) figures[`path: shows ${reason} after, s`] = at
      return Object.fromEntries(Object.entries(figures).filter(([, value]) => value !== null))
    },
  }
}
