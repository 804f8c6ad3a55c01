import { part } from './part.ts'

/** Dropped files and folders, and content from the share sheet. */
export const dropped = part('dropped', {
  unreadable: 'The browser could not read the dropped files. Try “Add files”.',
  cut: { other: 'Only the first {count} files were added. Share a larger folder in a terminal, with “watchfire share”.' },
  notReceived: 'What you shared did not arrive here. Share it once more. If that fails too, use “Add files”.',
  nothing: 'The folder has no files. Browsers leave out symbolic links.',
})
