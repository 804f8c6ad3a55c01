// Pages with one large file, and the panel that shows where its blocks are.

import { writeFile } from 'node:fs/promises'
import path from 'node:path'

import { newFolder } from '../lib/folders.mjs'
import { generated } from './fixtures.mjs'

const folder = newFolder()

/** A file on disk, because passing a large one through the browser's remote control takes too long. */
export async function film(bytes) {
  const to = path.join(folder, `film-${bytes}.bin`)
  await writeFile(to, generated(bytes))
  return { files: [to] }
}

export const panelOf = (person) => person.tab.getByRole('region', { name: 'Connections and copies' })

export async function openPanel(person, options = {}) {
  await person.openDetails(options.timeout)
  await person.tab.getByRole('button', { name: 'Connections' }).click(options)
  await panelOf(person).getByText('Where its blocks are').waitFor(options)
}
