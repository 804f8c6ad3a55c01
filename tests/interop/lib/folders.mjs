// Folders of tests.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/** Folders that are removed when this process ends. */
const kept = []
const remove = (folder) => rmSync(folder, { recursive: true, force: true })
process.once('exit', () => kept.forEach(remove))

/**
 * A new, empty folder. It is removed when the test `t` ends; without one, when this process ends, after everything that may
 * still use it, such as a browser with its profile there.
 */
export function newFolder(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'watchfire-test-'))
  if (t) t.after(() => remove(folder))
  else kept.push(folder)
  return folder
}
