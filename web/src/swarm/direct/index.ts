/** Direct paths between peers, over WebRTC's data channels. Fetched when there is something to move. */
import type { Line } from './line.ts'
import { switchboards } from './switchboard.ts'

export type { Line, MakeLine } from './line.ts'
export { switchboards, type Switchboard, type SwitchboardDeps } from './switchboard.ts'

/** Switchboards over the browser's own lines. */
export const browserSwitchboards = switchboards((configuration) => new RTCPeerConnection(configuration) satisfies Line)
