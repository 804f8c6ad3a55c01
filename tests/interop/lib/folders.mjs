// Folders of tests.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

/**
 * A new, empty folder. It is removed when the test `t` ends; without one, when this process ends, after everything that may
 * still use it, such as a browser with its profile there.
 */
export function newFolder(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'watchfire-test-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  if (t) t.after(remove)
  else process.once('exit', remove)
  return folder
}
