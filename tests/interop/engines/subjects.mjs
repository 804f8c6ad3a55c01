// The subjects of the tests in each engine, and the files that test them.

import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../browser', import.meta.url))

/** The tests of browsers whose names begin so; none while a feature has no tests yet. */
const testsOf = (name) =>
  readdirSync(folder)
    .filter((file) => file.startsWith(name) && file.endsWith('.test.mjs'))
    .map((file) => `browser/${file}`)

const all = {
  'The life of a page': [...testsOf('availability'), ...testsOf('holders'), ...testsOf('reload')],
  'Folders and kinds of files': [...testsOf('folders'), ...testsOf('file-types')],
  'Pages over several servers': testsOf('neighbours'),
  'Private pages': testsOf('private'),
  'Large pages': [...testsOf('large-files'), ...testsOf('disk-storage')],
  Streaming: [...testsOf('streaming'), ...testsOf('saving')],
  Sites: testsOf('sites'),
  Sprites: testsOf('sprites'),
  'Live pages': ['browser/live/live.test.mjs', 'browser/live/publisher-reload.test.mjs'],
  'Hostile pages': testsOf('sandbox'),
  'DOMPurify’s vectors': ['engines/vectors.test.mjs'],
}

/** The files of each subject, in the order of the table. */
export const SUBJECTS = Object.fromEntries(Object.entries(all).filter(([, files]) => files.length > 0))
