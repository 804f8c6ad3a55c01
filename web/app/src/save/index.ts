/** Saves files and folders to disk while they load. */
export { saveFile, saveFolder, saveSource, saveZip, MemoryConfirmationNeeded } from './save.ts'
export type { Progress, SavedFile, SaveEnd } from './save.ts'
