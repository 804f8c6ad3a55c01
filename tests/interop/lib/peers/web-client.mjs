// The code that simulated peers run: the web client's own, which does not depend on Node.

export { connect } from '../../../../clients/javascript/src/connection/index.ts'
export { defaultLimits, fetchLimits } from '../../../../web/packages/pages/src/limits/index.ts'
export { openPage, publish } from '../../../../web/packages/pages/src/swarm/index.ts'
export { directConnections } from '../../../../web/packages/pages/src/swarm/direct/index.ts'
export { decodeRelayFrame } from '../../../../web/packages/pages/src/swarm/segment.ts'
