/** The hash of the home page's address when there is content from the share sheet. */
export const RECEIVED_HASH = '#received'
