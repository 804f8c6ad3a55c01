import { useRef, useState } from 'preact/hooks'
import { kindOfName } from '@watchfire/pages/files'
import { isPage, SiteView } from '../sites/index.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { lazy } from '../ui/lazy.tsx'
import { files as text } from '../messages/files.ts'
import { sites as siteText } from '../messages/sites.ts'
import { shownName } from '../names/index.ts'
import { fileAt, indexOf } from '../files/directory.ts'
import { FileView } from './FileView.tsx'

const FolderView = lazy(async () => (await import('../folder/index.ts')).FolderView)

interface DirectoryViewProps {
  files: readonly DirectoryFile[]
  /** The number of symbolic links, which are not shown. */
  links: number
  /** See `PageContent`. */
  isPartial: boolean
  /** The file that the reader chose; `null` for the index file. */
  open: string | null
  /** The page's name; `null` when it has none. */
  name: string | null
  /** The origin on which the page may be shown as a site; `null` when there is none. */
  origin: string | null
}

/** A page of several files: the open one, and the list of all. */
export function DirectoryView({ files, links, isPartial, open, name, origin }: DirectoryViewProps) {
  const beside = useSameNames(files)
  const [siteFailed, setSiteFailed] = useState<string | null>(null)
  const index = indexOf(files)
  const named = open === null ? index : fileAt(files, open)
  // Above a text or a site, a picture takes its place, as every other file does.
  const boxed = index === null && named !== null && kindOfName(named.path)?.kind === 'picture' ? named : null
  const chosen = boxed === null ? named : null
  const isOfSite = chosen !== null && isPage(chosen)
  return (
    <>
      {open !== null && named === null && (
        <p class="notice bad" role="alert">
          {text.withNodes('noFile', { name: <code translate={false}>{shownName(open)}</code> })}
        </p>
      )}
      {isOfSite && isPartial ? (
        // A site may use any of its files, and starts again when the list of them grows.
        <p class="fetching" aria-busy="true" />
      ) : isOfSite && origin !== null && siteFailed === null ? (
        <SiteView key="site" origin={origin} page={name} files={files} open={chosen} onFailed={setSiteFailed} />
      ) : (
        chosen !== null && <FileView key={chosen.path} name={chosen.path} page={name} file={chosen} beside={beside} />
      )}
      {isOfSite && files.length > 1 && origin === null && <p class="notice">{siteText('oneByOne')}</p>}
      {isOfSite && files.length > 1 && siteFailed !== null && <p class="notice">{siteText('oneByOneFailed', { reason: siteFailed })}</p>}
      {(files.length === 0 || links > 0) && (
        <p class="notice">
          {files.length === 0 && text('empty')} {links > 0 && text('links', { count: links })}
        </p>
      )}
      {files.length > (chosen === null ? 0 : 1) && (
        <FolderView
          files={files}
          name={name}
          open={chosen?.path ?? null}
          boxed={
            boxed && { path: boxed.path, view: <FileView key={boxed.path} name={boxed.path} page={name} file={boxed} beside={beside} /> }
          }
          isPartial={isPartial}
        />
      )}
    </>
  )
}

/**
 * The files as the same array while their paths stay the same, because a text beside them is laid out again when the array changes. So
 * their sizes may be estimates for ever.
 */
function useSameNames(files: readonly DirectoryFile[]): readonly DirectoryFile[] {
  const before = useRef(files)
  const isSame = files.length === before.current.length && files.every(({ path }, i) => path === before.current[i]?.path)
  if (!isSame) before.current = files
  return before.current
}
