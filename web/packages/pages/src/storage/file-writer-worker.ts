// Runs in a worker, where every browser that has a private file system can write its files.

export interface WriteRequest {
  readonly id: number
  readonly path: readonly string[]
  readonly bytes: Uint8Array<ArrayBuffer>
}

export type WriteReply =
  | { readonly id: number; readonly file: File }
  /** The name of a `DOMException`. */
  | { readonly id: number; readonly name: string; readonly message: string }

interface SyncAccess {
  write(bytes: Uint8Array, options: { at: number }): number
  truncate(bytes: number): void | Promise<void>
  close(): void | Promise<void>
}

addEventListener('message', ({ data }: MessageEvent<WriteRequest>) => {
  void write(data).then((written) => postMessage(written))
})

async function write({ id, path, bytes }: WriteRequest): Promise<WriteReply> {
  try {
    let folder = await navigator.storage.getDirectory()
    for (const name of path.slice(0, -1)) folder = await folder.getDirectoryHandle(name, { create: true })
    const name = path.at(-1) ?? ''
    const handle = await folder.getFileHandle(name, { create: true })
    try {
      await fill(handle, bytes)
      const file = await handle.getFile()
      // On a full disk, Chromium reports success and truncates the file.
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
  // TypeScript's types are those of a window. This is a worker's.
  const access = await (handle as unknown as { createSyncAccessHandle(): Promise<SyncAccess> }).createSyncAccessHandle()
  try {
    for (let at = 0; at < bytes.length; ) {
      const written = access.write(bytes.subarray(at), { at })
      if (written === 0) throw full()
      at += written
    }
    // A note may replace a longer one.
    await access.truncate(bytes.length)
  } finally {
    await access.close()
  }
}

function full(): DOMException {
  return new DOMException('the disk took no more', 'QuotaExceededError')
}
