import { useState } from 'preact/hooks'
import { isPage, SiteView } from '../sites/index.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { fileHere } from '../ui/location.ts'
import { sizeText } from '../words/index.ts'
import { files as words } from '../words/files.ts'
import { sites as siteWords } from '../words/sites.ts'
import { indexOf } from './directory.ts'
import { FileView } from './FileView.tsx'
import { SaveAll } from './SaveAll.tsx'
import { SaveLink } from './SaveLink.tsx'

/** Files in the list at first, and with each click on "more". */
const LISTED_AT_ONCE = 500

interface DirectoryViewProps {
  files: readonly DirectoryFile[]
  /** The file its reader chose, `null` for the one it opens with. */
  open: string | null
  /** What the page is called, for saving all of it. */
  name: string
  /** Where the page may be a site, `null` where it cannot. */
  origin: string | null
}

/** Several files: the one that is open, and the list of all. */
export function DirectoryView({ files, open, name, origin }: DirectoryViewProps) {
  const [listed, setListed] = useState(LISTED_AT_ONCE)
  const [siteFailed, setSiteFailed] = useState<string | null>(null)
  const chosen = open === null ? indexOf(files) : files.find(({ path }) => path === open) ?? null
  const rest = files.filter((file) => file !== chosen)
  const more = rest.length - listed
  const bytes = files.reduce((sum, { size }) => sum + size, 0)
  const isOfSite = chosen !== null && isPage(chosen)
  return (
    <>
      {open !== null && chosen === null && (
        <p class="notice bad" role="alert">
          {words.around('noFile', { name: <code translate={false}>{open}</code> })}
        </p>
      )}
      {isOfSite && origin !== null && siteFailed === null ? (
        <SiteView key="site" origin={origin} files={files} open={chosen} onFailed={setSiteFailed} />
      ) : (
        chosen !== null && <FileView key={chosen.path} name={chosen.path} file={chosen} beside={files} />
      )}
      {isOfSite && files.length > 1 && origin === null && <p class="notice">{siteWords('oneByOne')}</p>}
      {isOfSite && files.length > 1 && siteFailed !== null && (
        <p class="notice">{siteWords('oneByOneFailed', { reason: siteFailed })}</p>
      )}
      {rest.length > 0 && (
        <section class="listing" aria-label={words('all')}>
          <h2>{words(chosen === null ? 'list' : 'also')}</h2>
          <p class="total">
            {words('total', { count: files.length, size: sizeText(bytes) })}
          </p>
          {files.length > 1 && <SaveAll name={name} files={files} />}
          <ul>
            {rest.slice(0, listed).map((file) => (
              <li key={file.path}>
                <a href={fileHere(file.path)} dir="auto" translate={false}>{file.path}</a>
                <span>{sizeText(file.size)}</span>
                <SaveLink file={{ ...file, name: file.path.replace(/^.*\//, '') }} />
              </li>
            ))}
          </ul>
          {more > 0 && (
            <div class="bar">
              <p class="total">{words('more', { count: more })}</p>
              <button type="button" class="quiet" onClick={() => setListed(listed + LISTED_AT_ONCE)}>
                {siteWords('showMore', { count: Math.min(more, LISTED_AT_ONCE) })}
              </button>
            </div>
          )}
        </section>
      )}
    </>
  )
}
