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

addEventListener('message', ({ data: { id, path, bytes } }: MessageEvent<WriteRequest>) => {
  const reply = (written: WriteReply) => postMessage(written)
  write(path, bytes).then(
    (file) => reply({ id, file }),
    ({ name, message }: Error) => reply({ id, name, message }),
  )
})
postMessage('started')

async function write(path: readonly string[], bytes: Uint8Array): Promise<File> {
  let folder = await navigator.storage.getDirectory()
  for (const name of path.slice(0, -1)) folder = await folder.getDirectoryHandle(name, { create: true })
  const name = path.at(-1) ?? ''
  const handle = await folder.getFileHandle(name, { create: true })
  try {
    await fill(handle, bytes)
    const file = await handle.getFile()
    // On a full disk, Chromium reports success and truncates the file.
    if (file.size !== bytes.length) throw full()
    return file
  } catch (error) {
    await folder.removeEntry(name).catch(() => {})
    throw error
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
