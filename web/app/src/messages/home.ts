import { part } from './part.ts'

/** The home page and its editor. */
export const home = part('home', {
  title: 'A page that burns as long as someone has it open',
  lead:
    'Write something or add files, and share the link. The page lives in the browsers that have it open; ' +
    'when the last one closes, it is gone.',
  stores: 'This server connects those browsers and stores nothing.',
  chat: 'Chat with the people here',
  sprites: 'Throw little pictures to the people here',
  writeIn: 'Format',
  markdown: 'Markdown',
  text: 'Text',
  html: 'HTML',
  addFiles: 'Add files',
  addFolder: 'Add folder',
  copy: 'A copy of a page',
  copyOf: 'A copy of “{name}”',
  box: 'Text of the page',
  invitation: 'Write here, or add files: drop them anywhere on this page…',
  invitationTouch: 'Write here, or add files…',
  beside: 'Write something beside the files, if you like…',
  reading: 'Reading the files…',
  nothing: 'The page is still empty: write something, or add a file.',
  hashing: 'Preparing',
  stop: 'Stop',
  creating: 'Lighting… {percent}',
  create: 'Light this page and get a link',
  keys: 'Ctrl + Enter',
  notCreated: 'The page could not be created. Try again.',
  upTo: 'Up to {size} per page',
  room: '{size} of {most}',
  tooLarge: '{size}, but a page may have at most {most}',
})
