/**
 * A small connection for programs that join topics of the server themselves, such as `@watchfire/pages`: WebSocket only, without
 * tokens and history, and without npm `phoenix`. Programs with tokens or history use `Client`.
 */
export { connect, reconnectDelay, type Connection, type ConnectionOptions, type ConnectionState } from './connection.js'
export type { Reply } from './socket.js'
export type { Topic, TopicEvents } from './topic.js'
