import { part } from './part.ts'

/** The home page and its editor. */
export const home = part('home', {
  title: 'A page that burns as long as someone has it open',
  lead:
    'Write something or drop files, and share the link. The page lives in the browsers that have it open; ' +
    'when the last one closes, it is gone.',
  stores: 'This server connects those browsers and stores nothing.',
  chat: 'Chat with the people here',
  sprites: 'Throw sprites to them',
  limits: 'What are the limits?',
  writeIn: 'Format',
  markdown: 'Markdown',
  text: 'Text',
  html: 'HTML',
  addFiles: 'Add files',
  box: 'Text of the page',
  invitation: 'Write here, or drop files anywhere on this page…',
  reading: 'Reading the dropped files…',
  nothing: 'The page is still empty: write something, or add a file.',
  files: 'Files of the page',
  putInText: 'Insert in text',
  remove: 'Remove {name}',
  more: { other: 'and {count} more' },
  sealed: 'Private',
  sealedMeans: 'Only people with the whole link can read it. The server cannot, nor can people who share it without the key.',
  hashing: 'Preparing',
  stop: 'Stop',
  creating: 'Lighting… {percent}',
  create: 'Light this page',
  keys: 'Ctrl + Enter',
  notCreated: 'The page could not be created. Try again.',
  upTo: 'Up to {size} per page',
  room: '{size} of {most}',
  tooLarge: '{size}, but a page may have at most {most}',
})
