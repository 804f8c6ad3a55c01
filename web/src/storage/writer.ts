// Runs in a worker, where files of the origin's private file system can be written in all browsers that have it.

export interface Writing {
  readonly id: number
  readonly path: readonly string[]
  readonly bytes: Uint8Array<ArrayBuffer>
}

export type Written =
  | { readonly id: number; readonly file: File }
  /** `name` is that of a `DOMException`. */
  | { readonly id: number; readonly name: string; readonly message: string }

interface SyncAccess {
  write(bytes: Uint8Array, options: { at: number }): number
  close(): void | Promise<void>
}

addEventListener('message', ({ data }: MessageEvent<Writing>) => {
  void write(data).then((written) => postMessage(written))
})

async function write({ id, path, bytes }: Writing): Promise<Written> {
  try {
    let folder = await navigator.storage.getDirectory()
    for (const name of path.slice(0, -1)) folder = await folder.getDirectoryHandle(name, { create: true })
    const name = path.at(-1) ?? ''
    const handle = await folder.getFileHandle(name, { create: true })
    try {
      await fill(handle, bytes)
      const file = await handle.getFile()
      // Where the disk is full, Chromium says that all was written, and cuts it off.
      if (file.size !== bytes.length) throw full()
      return { id, file }
    } catch (error) {
      await folder.removeEntry(name).catch(() => {})
      throw error
    }
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error))
    return { id, name, message }
  }
}

async function fill(handle: FileSystemFileHandle, bytes: Uint8Array): Promise<void> {
  // What TypeScript knows of the browser is what a window has; this is for workers.
  const access = await (handle as unknown as { createSyncAccessHandle(): Promise<SyncAccess> }).createSyncAccessHandle()
  try {
    for (let at = 0; at < bytes.length; ) {
      const written = access.write(bytes.subarray(at), { at })
      if (written === 0) throw full()
      at += written
    }
  } finally {
    await access.close()
  }
}

function full(): DOMException {
  return new DOMException('the disk took no more', 'QuotaExceededError')
}
