/** Saving files and folders to the disk of their reader, as they come. */
export { canPickFolder, saveFile, saveFolder, savedOf, saveZip, TooHeavy } from './save.ts'
export type { Progress, SavedFile, SaveEnd } from './save.ts'
