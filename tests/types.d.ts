// Packages that `npm run types` does not need to be installed: their scripts are checked without them.
declare module '@helia/*'
declare module '@libp2p/*'
declare module '@multiformats/multiaddr'
declare module '@socket.io/redis-adapter'
declare module '@supabase/realtime-js'
declare module '@watchfire/client'
declare module 'helia'
declare module 'http-cache-tests/*'
declare module 'multiformats/cid'
declare module 'node-fetch'
declare module 'redis'
declare module 'smol-toml'
declare module 'socket.io'
declare module 'webtorrent'
declare module 'yaml'

// Scripts of the tests set these in pages.
interface Window {
  announced: Map<Element, string>
  axe: typeof import('axe-core')
  handed: unknown[]
  locks: { released: boolean; release(): Promise<void> }[]
  peerConnections: RTCPeerConnection[]
  sentSignals: string[]
  statusTexts: Set<string | null>
  sessions: { isOpen: boolean; received: number }[]
  // biome-ignore lint/suspicious/noExplicitAny: experiments/peers/browser/watch-path.mjs describes what they return
  path: Record<'isKnown' | 'report', () => any>
  pwned: unknown
  // biome-ignore lint/suspicious/noExplicitAny: experiments/peers/browser/watch.mjs describes what they return
  watched: Record<'report' | 'share', () => any>
  // biome-ignore lint/suspicious/noExplicitAny: each script of experiments/peers/browser has its own
  lab: Record<string, any>
  labDone(): void
}
