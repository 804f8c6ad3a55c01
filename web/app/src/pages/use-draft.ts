import { useEffect, useState } from 'preact/hooks'
import { EMPTY_DRAFT, isEmpty, type Draft } from './draft.ts'
import { firstDraft, keepDraft } from './draft-store.ts'

/** Loaded only for a draft with files. */
const loadFileStore = () => import('./draft-file-store.ts')

interface UsedDraft {
  draft: Draft
  change: (change: (before: Draft) => Draft) => void
  /** Whether its files from before a reload are still being read. A page made now would be without them. */
  isRestoring: boolean
  /** Whether a reload would show it again. */
  isKept: boolean
  /** Removes what is kept, also when the editor is about to leave the screen. */
  forget: () => void
}

/** The draft of the home page. It survives a reload: its text in the tab's storage, its files in the browser's. */
export function useDraft(): UsedDraft {
  const [first] = useState(firstDraft)
  const [draft, setDraft] = useState(first.draft)
  const [isTextKept, setTextKept] = useState(true)
  const [keptFiles, setKeptFiles] = useState<Draft['files']>([])
  const [isRestoring, setRestoring] = useState(first.hadFiles)
  const { files, emptyFolders } = draft
  const change: UsedDraft['change'] = (make) =>
    setDraft((before) => {
      const after = make(before)
      // A draft without anything is the start of another page.
      return isEmpty(after) && !isRestoring ? { ...after, original: null } : after
    })
  useEffect(() => {
    if (!isRestoring) return
    void loadFileStore()
      .then(({ restore }) => restore())
      .catch(() => null)
      .then((withKept) => {
        setRestoring(false)
        if (withKept !== null) setDraft(withKept)
      })
  }, [])
  useEffect(() => {
    if (!isRestoring) setTextKept(keepDraft(draft))
  }, [draft])
  useEffect(() => {
    if (isRestoring || (files.length === 0 && keptFiles.length === 0)) return
    void loadFileStore()
      .then(({ keepFiles }) => keepFiles({ files, emptyFolders }))
      .then((isKept) => isKept && setKeptFiles(files))
      .catch(() => undefined)
  }, [files])
  const forget = () => {
    setDraft(EMPTY_DRAFT)
    keepDraft(EMPTY_DRAFT)
    if (files.length > 0)
      void loadFileStore().then(
        ({ keepFiles }) => keepFiles(EMPTY_DRAFT),
        () => undefined,
      )
  }
  return { draft, change, forget, isRestoring, isKept: isTextKept && (files.length === 0 || keptFiles === files) }
}
