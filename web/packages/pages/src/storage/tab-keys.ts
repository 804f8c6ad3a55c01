import type { KeyStore } from '../content/index.ts'

/** The tab that has a key, and the folder of the key's page in the folder of that tab. */
export type KeyName = readonly [tab: string, page: string]

/** The keys of live pages of this origin. */
export interface TabKeys {
  of(name: KeyName): KeyStore
  /** Removes the keys whose page has no folder any more. `top` contains a folder for each tab. */
  sweep(top: FileSystemDirectoryHandle): Promise<void>
}

/** `null` in a program without live pages, which has no code for keys. */
let known: TabKeys | null = null

/** Gives the keys to the disk, which then removes each with its page. */
export function provideTabKeys(keys: TabKeys): void {
  known = keys
}

export function tabKeys(): TabKeys | null {
  return known
}
