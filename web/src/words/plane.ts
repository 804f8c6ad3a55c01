import { part } from './part.ts'

/** A plane of sprites. */
export const plane = part('plane', {
  tab: '{plane} · Watchfire',
  title: 'Sprites on {plane}',
  shelf: 'Put a sprite here',
  put: 'Put a {name} here',
  putPicture: 'Put a picture of yours here',
  joining: 'Joining…',
  refused: 'Refused: {reason}',
  how: 'Throw a sprite over an edge, or focus it and press an arrow key. Drop or paste a picture to make it a sprite.',
  closeMessage: 'Close this message',
  letGo: 'Let go: it becomes a sprite',
  neighbours: 'Who is next to you',
  nobody: 'nobody',
  you: 'you',
  keys: '{name}: arrow keys throw it, Delete removes it',
  keysAnd: '{name}: arrow keys throw it, Delete removes it. {more}',
  titleAnd: '{name}. {more}',
  coming: 'Its picture is on the way.',
})
