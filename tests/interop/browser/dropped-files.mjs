// Drops files and folders from disk on a page, as a person does.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { newFolder } from '../lib/folders.mjs'

/** Writes files below a folder that is removed when the test ends. A name that ends with a slash is an empty folder. */
export async function folderOf(t, files) {
  const folder = newFolder(t)
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
  const send = (type) => session.send('Input.dispatchDragEvent', { type, x: width / 2, y: height / 2, data })
  for (const type of ['dragEnter', 'dragOver']) await send(type)
  // The page now shows what is dragged over it, and the browser drops only where the last event was accepted.
  await tab.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
  for (const type of ['dragOver', 'drop']) await send(type)
  await session.detach()
}
