// Drops files and folders from disk on a page, as a person does.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

import { newFolder } from '../lib/folders.mjs'
import { WAIT_MS } from './page-driver.mjs'

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

/**
 * Drops files and folders from disk on the middle of the page. The browser drops only where the last event was accepted, and
 * that place changes while the page begins to show what is dragged over it, so the files are moved and dropped, as a hand
 * does it, until the page gets them.
 */
export async function drop({ tab }, files) {
  const session = await tab.context().newCDPSession(tab)
  const { width, height } = tab.viewportSize()
  const data = { items: [], files, dragOperationsMask: 1 }
  const send = (type) => session.send('Input.dispatchDragEvent', { type, x: width / 2, y: height / 2, data })
  const seen = await tab.evaluateHandle(() => {
    const seen = { isDropped: false }
    addEventListener('drop', () => (seen.isDropped = true), { capture: true })
    return seen
  })
  const nextFrame = () => seen.evaluate((seen) => new Promise((resolve) => requestAnimationFrame(() => resolve(seen))))
  for (const end = Date.now() + WAIT_MS; !(await nextFrame()).isDropped; ) {
    if (Date.now() > end) throw new Error('the page accepts no files')
    for (const type of ['dragEnter', 'dragOver']) await send(type)
    await nextFrame()
    await nextFrame()
    for (const type of ['dragOver', 'drop']) await send(type)
  }
  await session.detach()
}
