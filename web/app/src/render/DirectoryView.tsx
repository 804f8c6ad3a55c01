import { useState } from 'preact/hooks'
import { isPage, SiteView } from '../sites/index.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { fileLink } from '../ui/location.ts'
import { sizeText } from '../messages/index.ts'
import { files as text } from '../messages/files.ts'
import { sites as siteText } from '../messages/sites.ts'
import { shownName } from '../names/index.ts'
import { fileAt, indexOf } from '../files/directory.ts'
import { FileView } from './FileView.tsx'
import { SaveAll } from '../save/SaveAll.tsx'
import { SaveLink } from '../save/SaveLink.tsx'

/** Files listed at first, and added with each click on "more". */
const LISTED_AT_ONCE = 500

interface DirectoryViewProps {
  files: readonly DirectoryFile[]
  /** The number of symbolic links, which are not shown. */
  links: number
  /** The file that the reader chose; `null` for the index file. */
  open: string | null
  /** The page's name, for saving all of it. */
  name: string
  /** The origin on which the page may be shown as a site; `null` when there is none. */
  origin: string | null
}

/** A page of several files: the open one, and the list of all. */
export function DirectoryView({ files, links, open, name, origin }: DirectoryViewProps) {
  const [listed, setListed] = useState(LISTED_AT_ONCE)
  const [siteFailed, setSiteFailed] = useState<string | null>(null)
  const chosen = open === null ? indexOf(files) : fileAt(files, open)
  const rest = files.filter((file) => file !== chosen)
  const more = rest.length - listed
  const bytes = files.reduce((sum, { size }) => sum + size, 0)
  const isOfSite = chosen !== null && isPage(chosen)
  return (
    <>
      {open !== null && chosen === null && (
        <p class="notice bad" role="alert">
          {text.withNodes('noFile', { name: <code translate={false}>{shownName(open)}</code> })}
        </p>
      )}
      {isOfSite && origin !== null && siteFailed === null ? (
        <SiteView key="site" origin={origin} files={files} open={chosen} onFailed={setSiteFailed} />
      ) : (
        chosen !== null && <FileView key={chosen.path} name={chosen.path} file={chosen} beside={files} />
      )}
      {isOfSite && files.length > 1 && origin === null && <p class="notice">{siteText('oneByOne')}</p>}
      {isOfSite && files.length > 1 && siteFailed !== null && <p class="notice">{siteText('oneByOneFailed', { reason: siteFailed })}</p>}
      {(files.length === 0 || links > 0) && (
        <p class="notice">
          {files.length === 0 && text('empty')} {links > 0 && text('links', { count: links })}
        </p>
      )}
      {rest.length > 0 && (
        <section class="listing" aria-label={text('all')}>
          <h2>{text(chosen === null ? 'list' : 'also')}</h2>
          <p class="total">{text('total', { count: files.length, size: sizeText(bytes) })}</p>
          {files.length > 1 && <SaveAll name={name} files={files} />}
          <ul>
            {rest.slice(0, listed).map((file) => (
              <li key={file.path}>
                <a href={fileLink(file.path)} dir="auto" translate={false}>
                  {shownName(file.path)}
                </a>
                <span>{sizeText(file.size)}</span>
                <SaveLink file={{ ...file, name: file.path.replace(/^.*\//, '') }} />
              </li>
            ))}
          </ul>
          {more > 0 && (
            <div class="bar">
              <p class="total">{text('more', { count: more })}</p>
              <button type="button" class="quiet" onClick={() => setListed(listed + LISTED_AT_ONCE)}>
                {siteText('showMore', { count: Math.min(more, LISTED_AT_ONCE) })}
              </button>
            </div>
          )}
        </section>
      )}
    </>
  )
}
