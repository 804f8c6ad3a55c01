import { part } from './part.ts'

/** The parts of the editor that the first paint does not need. */
export const editor = part('editor', {
  about: 'About “{name}”',
  markdownMeans: '# Title, **bold**, *italic*, - list, [words](address): the preview shows it.',
  textMeans: 'Shown exactly as you write it.',
  htmlMeans: 'A web page. It has no access to the network; its readers choose whether its scripts run.',
  preview: 'Preview',
  files: 'Files of the page',
  inAll: { '=1': '1 file · {size}', other: '{count} files · {size}' },
  inFolder: '{name} · {files}',
  putInText: 'Insert in text',
  remove: 'Remove {name}',
  more: { other: 'and {count} more' },
  sealed: 'Private',
  sealedMeans: 'Only people with the whole link can read it. The server cannot.',
})
