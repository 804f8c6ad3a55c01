import { sweepDisk } from './browser-disk.ts'
import { keyDatabase } from './live/key-database.ts'
import { provideTabKeys } from './tab-keys.ts'

/** Removes the folders of tabs that have ended, and their keys. */
export function sweep(): void {
  provideTabKeys(keyDatabase)
  sweepDisk()
}
