import { useRef } from 'preact/hooks'
import { filesOf } from './FilePicker.tsx'
import type { PageFile } from './site.ts'

interface FolderPickerProps {
  label: string
  isDisabled: boolean
  onPick: (files: PageFile[]) => void
}

/** A button that asks the browser for a folder; nothing where it cannot pick one. */
export function FolderPicker({ label, isDisabled, onPick }: FolderPickerProps) {
  // A browser may drop an element that nothing refers to while its dialog is open.
  const picker = useRef<HTMLInputElement>(null)
  if (!('webkitdirectory' in HTMLInputElement.prototype)) return null
  const pick = () => {
    const input = document.createElement('input')
    picker.current = input
    input.type = 'file'
    input.webkitdirectory = true
    input.addEventListener('change', () => onPick(filesOf(input.files)))
    input.click()
  }
  return (
    <button type="button" class="quiet picker" disabled={isDisabled} onClick={pick}>
      {label}
    </button>
  )
}
