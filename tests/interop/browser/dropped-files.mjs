// Drops files and folders from disk on a page, as a person does.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** Writes files below a folder that is removed when the test ends. A name that ends with a slash is an empty folder. */
export async function folderOf(t, files) {
  const folder = await mkdtemp(path.join(tmpdir(), 'watchfire-'))
  t.after(() => rm(folder, { recursive: true }))
  for (const [name, content] of Object.entries(files)) {
    const place = path.join(folder, name)
    await mkdir(name.endsWith('/') ? place : path.dirname(place), { recursive: true })
    if (!name.endsWith('/')) await writeFile(place, content)
  }
  return folder
}

/** Drops files and folders from disk on the middle of the page. */
export async function drop({ tab }, files) {
  const session = await tab.context().newCDPSession(tab)
  const { width, height } = tab.viewportSize()
  const data = { items: [], files, dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver', 'drop']) {
    await session.send('Input.dispatchDragEvent', { type, x: width / 2, y: height / 2, data })
  }
  await session.detach()
}
