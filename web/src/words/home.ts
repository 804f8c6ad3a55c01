import { part } from './part.ts'

/** The front door, and what is written there. */
export const home = part('home', {
  title: 'A page that burns as long as someone watches it',
  lead: 'Write something or drop files, and share the link. The page lives in the browsers that have it open; ' +
    'when the last one closes, it is gone.',
  stores: 'This server introduces people to each other and stores nothing.',
  chat: 'Chat with who is here',
  sprites: 'Throw sprites at them',
  limits: 'What are the limits?',
  writeIn: 'Write in',
  markdown: 'Markdown',
  text: 'Text',
  html: 'HTML',
  addFiles: 'Add files',
  box: 'What the page says',
  invitation: 'Write here, or drop files anywhere on this page…',
  unreadable: 'The browser could not read what was dropped.',
  cut: 'Only the first {count} files of that were taken.',
  nothing: 'There is nothing to light yet: write something, or add a file.',
  files: 'Files of the page',
  putInText: 'Put in the text',
  remove: 'Remove {name}',
  more: { other: 'and {count} more' },
  hashing: 'Hashing',
  stop: 'Stop',
  lighting: 'Lighting… {percent}',
  light: 'Light it',
  unlit: 'The page could not be lit.',
  upTo: 'Up to {size} a page',
  room: '{size} of {most}',
  tooLarge: '{size} is more than the {most} a page may have',
})
