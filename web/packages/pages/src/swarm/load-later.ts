import type { LoadLivePage } from './api.ts'
import type { LoadDirectConnections } from './direct-paths.ts'

/**
 * For `PageDeps.direct`: WebRTC, and WebTransport to terminals, which costs both sides less. `undefined` without WebTransport, which
 * browsers have only in secure contexts. The code that dials is loaded with the first offer of a terminal. A policy of the site must
 * allow connections to any `https:` address; otherwise WebRTC is used.
 */
export const loadDialling: LoadDirectConnections | undefined =
  typeof RTCPeerConnection === 'function' && typeof WebTransport === 'function'
    ? () => import('./direct/late-dialling.ts').then((dialling) => dialling.browserLateDialling)
    : undefined

/** For `PageDeps.live`: loads the code of live pages when the first block of a page says that it is live. */
export const loadLive: LoadLivePage = (root, beginning, store) =>
  import('./live/index.ts').then((live) => live.LivePage.resume(root, beginning, store))
