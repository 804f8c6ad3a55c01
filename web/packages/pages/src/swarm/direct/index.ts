/** Direct connections between peers, over WebRTC data channels. Loaded when the first is needed. */
import type { RtcConnection } from './rtc-interfaces.ts'
import { directConnections } from './connections.ts'

export type { RtcConnection } from './rtc-interfaces.ts'
export { directConnections } from './connections.ts'

/** Direct connections over the browser's `RTCPeerConnection`. */
export const browserDirectConnections = directConnections((configuration) => new RTCPeerConnection(configuration) satisfies RtcConnection)
