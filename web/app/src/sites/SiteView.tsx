import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useAsync } from '../ui/use-async.ts'
import { textIn } from '@watchfire/pages/files'
import { FileHead } from '../files/FileHead.tsx'
import { SaveLink } from '../save/SaveLink.tsx'
import { mayHaveScripts, sandboxSentence } from '../sandbox/index.ts'
import { isAtFrameEntry, recordFrameFile } from '../ui/location.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { files as fileText } from '../messages/files.ts'
import { sites as text } from '../messages/sites.ts'
import { SiteFolder } from './folder.ts'
import { frameDocument, SiteFrame, type FrameEvent } from './frame.ts'
import { urlPathOf } from './origin.ts'

/** Larger pages are not searched for scripts; the reader is offered to run them in any case. */
const SEARCHED_BYTES_MAX = 4 << 20

interface SiteViewProps {
  origin: string
  /** The name of the page; `null` when it has none. */
  page: string | null
  files: readonly DirectoryFile[]
  /** The file to open, and later the one that the reader chose outside of the frame. */
  open: DirectoryFile
  /** Called with the reason when the site cannot be shown. */
  onFailed: (reason: string) => void
}

/** A folder as a site on an origin of its own, without scripts until the reader allows them. */
export function SiteView({ origin, page, files, open, onFailed }: SiteViewProps) {
  const [running, setRunning] = useState(false)
  const [isReady, setReady] = useState(false)
  const [at, setAt] = useState(open)
  const [notice, setNotice] = useState<Notice | null>(null)
  const outer = useRef<HTMLIFrameElement>(null)
  const stage = useRef<HTMLDivElement>(null)
  const frame = useRef<SiteFrame | null>(null)
  /** Counts the frames shown one after the other; the history entries of earlier ones are invalid. */
  const frameId = useRef(0)
  const folder = useMemo(() => new SiteFolder(files), [files])
  const source = useMemo(() => frameDocument(origin), [origin])

  const show = (file: DirectoryFile, scripts: boolean) => {
    frameId.current += 1
    setNotice(null)
    setAt(file)
    frame.current?.show(urlPathOf(file.path), scripts)
  }
  const onFrameEvent = (event: FrameEvent) => {
    switch (event.kind) {
      case 'ready':
        setReady(true)
        return
      case 'failed':
        onFailed(event.reason)
        return
      case 'lost':
        setNotice({ kind: 'lost' })
        return
      case 'outside':
        setNotice({ kind: 'outside', url: event.url })
        return
      case 'location': {
        setNotice(null)
        const found = folder.find(event.path)
        // A picture or other file is viewed within the page that links to it.
        if (found.kind !== 'file' || !isPage(found.file)) return
        setAt(found.file)
        recordFrameFile(found.file.path, frameId.current)
      }
    }
  }
  const listen = useRef(onFrameEvent)
  listen.current = onFrameEvent

  // A layout effect, so that the listener exists before the frame announces itself.
  useLayoutEffect(() => {
    if (outer.current === null) return
    const shown = new SiteFrame(origin, outer.current, folder, (event) => listen.current(event))
    frame.current = shown
    return () => shown.close()
  }, [origin, folder])
  useEffect(() => {
    if (isReady) show(open, running)
  }, [isReady, running])
  useEffect(() => {
    // The frame itself follows its own history entries.
    if (isReady && open !== at && !isAtFrameEntry(frameId.current)) show(open, running)
  }, [open])

  const scripted = useAsync(async () => {
    if (at.size > SEARCHED_BYTES_MAX) return true
    return mayHaveScripts(await textIn(await at.blob(), 'html'))
  }, [at])
  const name = at.path.replace(/^.*\//, '')
  return (
    <article class="file">
      <FileHead path={at.path} page={page} size={at.size}>
        <SaveLink file={{ ...at, name }} />
      </FileHead>
      {(running || (scripted !== null && 'ok' in scripted && scripted.ok)) && (
        <div class="bar sandbox">
          <p>{sandboxSentence(running)}</p>
          <button type="button" onClick={() => setRunning(!running)}>
            {fileText(running ? 'stop' : 'run')}
          </button>
        </div>
      )}
      {notice !== null && <NoticeBar notice={notice} back={() => show(at, running)} />}
      <div class="stage" ref={stage}>
        <iframe ref={outer} title={text('frame')} srcdoc={source} />
      </div>
      {document.fullscreenEnabled && (
        <div class="bar">
          <button type="button" class="quiet" onClick={() => void stage.current?.requestFullscreen()}>
            {fileText('fullScreen')}
          </button>
        </div>
      )}
    </article>
  )
}

type Notice = { kind: 'lost' } | { kind: 'outside'; url: string }

function NoticeBar({ notice, back }: { notice: Notice; back: () => void }) {
  if (notice.kind === 'outside') {
    return (
      <p class="notice" role="status">
        {text.withNodes('outside', { address: <code translate={false}>{notice.url.slice(0, 300)}</code> })}
      </p>
    )
  }
  return (
    <p class="notice" role="status">
      {text('lost')}{' '}
      <button type="button" class="quiet" onClick={back}>
        {text('back')}
      </button>
    </p>
  )
}

/** Whether a file is an HTML page, by its name. */
export function isPage({ path }: { path: string }): boolean {
  return /\.x?html?$/i.test(path)
}
