import type { DirectoryFile } from '../ui/site.ts'
import { fileHere } from '../ui/location.ts'
import { sizeText } from '../words/index.ts'
import { files as words } from '../words/files.ts'
import { indexOf } from './directory.ts'
import { FileView } from './FileView.tsx'
import { SaveAll } from './SaveAll.tsx'
import { SaveLink } from './SaveLink.tsx'

const LISTED_MAX = 500

interface DirectoryViewProps {
  files: readonly DirectoryFile[]
  /** The file its reader chose, `null` for the one it opens with. */
  open: string | null
  /** What the page is called, for saving all of it. */
  name: string
}

/** Several files: the one that is open, and the list of all. */
export function DirectoryView({ files, open, name }: DirectoryViewProps) {
  const chosen = open === null ? indexOf(files) : files.find(({ path }) => path === open) ?? null
  const rest = files.filter((file) => file !== chosen)
  const more = rest.length - LISTED_MAX
  const bytes = files.reduce((sum, { size }) => sum + size, 0)
  return (
    <>
      {open !== null && chosen === null && (
        <p class="notice bad" role="alert">
          {words.around('noFile', { name: <code translate={false}>{open}</code> })}
        </p>
      )}
      {chosen !== null && <FileView key={chosen.path} name={chosen.path} file={chosen} beside={files} />}
      {rest.length > 0 && (
        <section class="listing" aria-label={words('all')}>
          <h2>{words(chosen === null ? 'list' : 'also')}</h2>
          <p class="total">
            {words('total', { count: files.length, size: sizeText(bytes) })}
          </p>
          {files.length > 1 && <SaveAll name={name} files={files} />}
          <ul>
            {rest.slice(0, LISTED_MAX).map((file) => (
              <li key={file.path}>
                <a href={fileHere(file.path)} dir="auto" translate={false}>{file.path}</a>
                <span>{sizeText(file.size)}</span>
                <SaveLink file={{ ...file, name: file.path.replace(/^.*\//, '') }} />
              </li>
            ))}
            {more > 0 && <li>{words('more', { count: more })}</li>}
          </ul>
        </section>
      )}
    </>
  )
}
