export { connect } from './connection.ts'
export type { Connection, ConnectionOptions, ConnectionState, Reply, Topic, TopicEvents } from './connection.ts'
