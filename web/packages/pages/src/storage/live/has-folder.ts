import type { KeyName } from '../tab-keys.ts'

/** Whether the page of this key has a folder. A key is stored after the first blocks of its page, so it never waits for a folder. */
export async function hasFolder(top: FileSystemDirectoryHandle, [tab, page]: KeyName): Promise<boolean> {
  try {
    await (await top.getDirectoryHandle(tab)).getDirectoryHandle(page)
    return true
  } catch (error) {
    return !(error instanceof DOMException && error.name === 'NotFoundError')
  }
}
