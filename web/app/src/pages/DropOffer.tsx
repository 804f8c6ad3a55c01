import { useEffect, useRef, useState } from 'preact/hooks'
import { page as text } from '../messages/page.ts'
import { shell } from '../messages/shell.ts'
import { shownName } from '../names/index.ts'
import { readTransfer, type Dropped } from '../ui/dropped-files.ts'
import { navigate } from '../ui/location.ts'
import { useDrop } from '../ui/use-drop.ts'
import { firstDraft, handOver } from './draft-store.ts'

/** Offers to make a page of files that are dropped on a page, which accepts none. */
export function DropOffer() {
  const [dropped, setDropped] = useState<Dropped | null>(null)
  const dragging = useDrop((transfer) => void readTransfer(transfer).then(setDropped))
  return (
    <>
      {dragging && <div class="dropping" />}
      {dropped !== null && <Offer dropped={dropped} onClose={() => setDropped(null)} />}
    </>
  )
}

function Offer({ dropped, onClose }: { dropped: Dropped; onClose: () => void }) {
  const { files } = dropped
  const dialog = useRef<HTMLDialogElement>(null)
  const [problem, setProblem] = useState(dropped.notice)
  useEffect(() => dialog.current?.showModal(), [])
  const open = () => void openEditor(dropped).catch(() => setProblem(shell('partMissing')))
  return (
    <dialog ref={dialog} class="offer" aria-label={text('dropped')} onClose={onClose}>
      {files.length > 0 && <p>{question(files)}</p>}
      {problem !== null && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
      <div class="bar">
        {files.length > 0 && (
          <button type="button" class="strong" onClick={open}>
            {text('toEditor')}
          </button>
        )}
        <button type="button" onClick={() => dialog.current?.close()}>
          {text('notNow')}
        </button>
      </div>
    </dialog>
  )
}

/** The question whether to make a page of the files, by the name of the only file or folder. */
function question(files: Dropped['files']): string {
  const [first, ...others] = new Set(files.map(({ path }) => path.split('/')[0] ?? ''))
  if (first === undefined || others.length > 0) return text('lightFiles', { count: files.length })
  return text('lightDropped', { name: shownName(first) })
}

/** Opens the editor with the files, beside what this tab has begun to write. */
async function openEditor({ files, emptyFolders }: Dropped): Promise<void> {
  const [{ withFiles }, { restore }] = await Promise.all([import('./draft-files.ts'), import('./draft-file-store.ts')])
  const { draft, hadFiles } = firstDraft()
  const added = withFiles(draft, files, emptyFolders)
  handOver(hadFiles ? (await restore())(added) : added)
  navigate('/')
}
