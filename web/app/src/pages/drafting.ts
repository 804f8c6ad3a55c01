/**
 * Everything that turns a draft into a page, and drops and pastes into a draft. The first view does not need it. The list of files is
 * here so that it appears with the first file: later, it would move a button that someone is pressing.
 */
export { Chips } from './Chips.tsx'
export { pictureMarkup, withMarkup, withShownFiles } from './draft-files.ts'
export { receive } from './receive.ts'
export { readDrop, readPicked } from '../ui/dropped-files.ts'
export { isPastedText } from '../ui/pasted-text.ts'
export { markdownOf } from './rich-text.ts'
export { shareDraft } from './share-draft.ts'
