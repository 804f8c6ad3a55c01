import { part } from './part.ts'

/** A room where people talk. */
export const chat = part('chat', {
  tab: '{room} · Watchfire',
  title: 'Room {room}',
  room: 'Room',
  enter: 'Enter',
  joining: 'Joining…',
  joined: 'Connected',
  refused: 'Refused: {reason}',
  said: 'What was said',
  nothing: 'Nothing said since you came. The room remembers nothing.',
  noReason: 'no reason given',
  unsent: 'That could not be sent.',
  unsaid: 'The server refused it: {reason}.',
  timeout: 'The server did not answer in time.',
  offline: 'There is no connection to the server at the moment.',
  name: 'Your name',
  message: 'Message',
  invitation: 'Say something',
  send: 'Send',
})
