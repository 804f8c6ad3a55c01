// The code that simulated peers run: the web client's own, which does not depend on Node.

export { connect } from '../../../../web/src/channel/index.ts'
export { defaultLimits, fetchLimits } from '../../../../web/src/limits/index.ts'
export { openPage, publish } from '../../../../web/src/swarm/index.ts'
export { directConnections } from '../../../../web/src/swarm/direct/index.ts'
export { decodeRelayFrame } from '../../../../web/src/swarm/segment.ts'
