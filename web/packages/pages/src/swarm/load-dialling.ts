import type { LoadDirectConnections } from './lazy-direct-connections.ts'

/**
 * For `PageDeps.direct`: WebRTC, and WebTransport to terminals, which costs both sides less. `undefined` without WebTransport, which
 * browsers have only in secure contexts. A policy of the site must allow connections to any `https:` address.
 */
export const loadDialling: LoadDirectConnections | undefined =
  typeof RTCPeerConnection === 'function' && typeof WebTransport === 'function'
    ? () => import('./direct/dialling-connections.ts').then(({ browserDiallingConnections }) => browserDiallingConnections)
    : undefined
