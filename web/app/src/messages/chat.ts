import { part } from './part.ts'

/** A chat room. */
export const chat = part('chat', {
  tab: '{room} · Watchfire',
  title: 'Room {room}',
  room: 'Room',
  enter: 'Enter',
  joining: 'Joining…',
  joined: 'Connected',
  refused: 'Cannot join: {reason}',
  off: 'This server has no chat',
  offWhy: 'Its operator can turn the chat on with the setting {setting}.',
  members: { '=1': 'Only you are here', other: '{count} people are here' },
  more: { other: 'and {count} more' },
  entered: '{user} entered',
  messages: 'Messages',
  none: 'No messages since you came. The room keeps no history.',
  noReason: 'no reason given',
  unsent: 'The message could not be sent. Try again.',
  rejected: 'The server rejected the message: {reason}.',
  timeout: 'The server did not answer in time. Try again.',
  offline: 'There is no connection to the server. Wait until it is back.',
  name: 'Your name',
  message: 'Message',
  invitation: 'Write a message',
  send: 'Send',
})
