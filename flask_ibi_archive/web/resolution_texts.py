"""Texts in Portuguese and English about persistent URLs: alerts, the resolver's front page."""

from __future__ import annotations

#: (Portuguese, English) by name.
TEXTS: dict[str, tuple[str, str]] = {
    "alert_again": ("Tentar de novo", "Try again"),
    "alert_all_archives": (
        "Procure o mesmo em todos os Arquivos",
        "Search all Archives for the same",
    ),
    "alert_archives": ("Arquivos", "Archives"),
    "alert_asked": ("URL persistente solicitada", "Requested persistent URL"),
    "alert_bare_item": (
        "Veja o item, sem o resto da URL",
        "See the item, without the rest of the URL",
    ),
    "alert_front": ("Volte à página inicial do resolvedor", "Go to the resolver's front page"),
    "alert_has": ("O que o item tem", "What the item has"),
    "alert_has_files": ("A lista de arquivos", "The list of files"),
    "alert_has_format": ("Os metadados em {}", "The metadata in {}"),
    "alert_has_metadata": ("Os metadados", "The metadata"),
    "alert_has_translation": ("A versão em {}", "The version in {}"),
    "alert_lack_access": (
        "Nenhum Arquivo indica um endereço do item que você possa abrir.",
        "No Archive gives an address of the item that you may open.",
    ),
    "alert_lack_edition": (
        "Nenhum Arquivo indica qual é a última edição do item.",
        "No Archive says which edition of the item is the last.",
    ),
    "alert_lack_file": (
        "O item não tem o arquivo que a URL pede.",
        "The item does not have the file that the URL asks for.",
    ),
    "alert_lack_format": (
        "O item não tem metadados no formato que a URL pede.",
        "The item has no metadata in the format that the URL asks for.",
    ),
    "alert_lack_metadata": (
        "O item não tem metadados que algum Arquivo possa mostrar.",
        "The item has no metadata that an Archive can show.",
    ),
    "alert_lack_original": (
        "Nenhum Arquivo declara ter o original do item.",
        "No Archive claims to have the original of the item.",
    ),
    "alert_lack_translation": (
        "O item não tem a tradução que a URL pede.",
        "The item does not have the translation that the URL asks for.",
    ),
    "alert_loop": (
        "As respostas dos Arquivos andam em círculo",
        "The Archives' answers go round in circles",
    ),
    "alert_loop_about": (
        "Cada Arquivo indica outro item como continuação deste, e nenhum indica onde ele está. Não "
        "é culpa sua: há um erro no cadastro dos itens.",
        "Each Archive refers to another item, and none says where the item is. It is not your "
        "fault: there is an error in the records of the items.",
    ),
    "alert_loop_next": (
        "Avise a instituição que publicou o item e envie a ela a URL acima.",
        "Tell the institution that published the item, and send it the URL above.",
    ),
    "alert_malformed": ("Esta não é uma URL persistente", "This is no persistent URL"),
    "alert_malformed_about": (
        "O endereço não está escrito como deveria; talvez uma parte tenha se perdido ao copiar.",
        "The address is not correct; perhaps a part of it was lost when it was copied.",
    ),
    "alert_malformed_compare": (
        "Compare com o texto de onde você o copiou: uma URL persistente é assim:",
        "Compare it with the text that you copied it from. A persistent URL looks like this:",
    ),
    "alert_malformed_next": (
        "Cuidado com o fim da linha, a pontuação que vem depois e letras parecidas (0 e O, 1 e I).",
        "Check the end of the line, the punctuation that follows, and letters that look alike (0 "
        "and O, 1 and I).",
    ),
    "alert_meant": ("Você quis dizer", "Did you mean"),
    "alert_method": ("Não é assim que se pede um item", "This is not how to request an item"),
    "alert_method_about": (
        "URLs persistentes aceitam apenas os métodos GET e HEAD.",
        "Persistent URLs accept only the methods GET and HEAD.",
    ),
    "alert_method_next": ("Abra o endereço no navegador.", "Open the address in your browser."),
    "alert_missing": (
        "O item existe, mas não tem o que foi pedido",
        "The item exists, but does not have what was asked for",
    ),
    "alert_missing_next": (
        "Confira o que vem depois do identificador, ou escolha algo que o item tem.",
        "Check what follows the identifier, or choose something that the item has.",
    ),
    "alert_other_copy": (
        "Veja o item assim mesmo (sem garantia de que seja o original)",
        "See the item anyway (without a guarantee that it is the original)",
    ),
    "alert_reason": ("O que está errado", "What is wrong"),
    "alert_removed": ("Este item foi removido", "This item was removed"),
    "alert_removed_about": (
        "O identificador continua valendo: ele pertence ao item removido e não será dado a outro.",
        "The identifier stays valid: it belongs to the removed item and is never given to another.",
    ),
    "alert_removed_next": (
        "A página do item explica por que ele foi removido e o que ler em seu lugar:",
        "The page of the item explains why it was removed and what to read instead:",
    ),
    "alert_silent": ("Nem todos os Arquivos responderam", "Not all Archives have answered"),
    "alert_silent_about": (
        "{silent} de {asked} Arquivos não responderam a tempo, e nenhum dos outros tem o que foi "
        "pedido. O item pode estar em um deles.",
        "{silent} of {asked} Archives did not answer in time, and none of the others has what was "
        "asked for. The item may be in one of them.",
    ),
    "alert_silent_next": (
        "Espere um pouco e tente de novo. Se não der certo, tente mais tarde.",
        "Wait a moment and try again. If that does not help, try later.",
    ),
    "alert_silent_removed": (
        "Um dos Arquivos que responderam removeu o item.",
        "One of the Archives that answered has removed the item.",
    ),
    "alert_suspects": (
        "Mais de um Arquivo declara ter o original",
        "More than one Archive claims to have the original",
    ),
    "alert_suspects_about": (
        "Um item tem um só original, e você pediu o original. Não há como saber qual destes "
        "Arquivos está certo; por isso você não foi redirecionado.",
        "An item has only one original, and you asked for the original. There is no way to know "
        "which of these Archives is right, so you were not redirected.",
    ),
    "alert_suspects_next": (
        "Avise as instituições responsáveis por esses Arquivos: uma delas precisa corrigir seu "
        "cadastro.",
        "Tell the institutions responsible for these Archives: one of them has to correct its "
        "records.",
    ),
    "alert_too_long": ("A cadeia de itens é longa demais", "The chain of items is too long"),
    "alert_too_long_about": (
        "Cada item remete a outro, e a busca parou no número máximo de etapas. O que você pede "
        "pode existir mais adiante.",
        "Each item refers to another one, and the search stopped at the maximum number of steps. "
        "What you ask for may exist further on.",
    ),
    "alert_too_long_next": (
        "Continue a partir do item acima, onde a busca parou, ou avise a instituição que o "
        "publicou.",
        "Continue from the item above, where the search stopped, or tell the institution that "
        "published it.",
    ),
    "alert_unknown": ("Nenhum Arquivo tem o que foi pedido", "No Archive has what was asked for"),
    "alert_unknown_about": (
        "Todos os Arquivos foram consultados, e nenhum tem um item com este identificador.",
        "All Archives were asked, and none has an item with this identifier.",
    ),
    "alert_unknown_here": (
        "Este Arquivo não tem o que foi pedido",
        "This Archive does not have what was asked for",
    ),
    "alert_unknown_here_about": (
        "Nenhum item deste Arquivo tem este identificador, ou o que a URL pede do item está em "
        "outro lugar.",
        "No item of this Archive has this identifier, or what the URL asks for is in another "
        "place.",
    ),
    "alert_unknown_next": (
        "Confira o identificador com o texto de onde você o copiou, letra por letra.",
        "Compare the identifier with the text that you copied it from, letter by letter.",
    ),
    "alert_unready": ("Não é possível responder agora", "No answer is possible at the moment"),
    "alert_unready_about": (
        "O serviço está temporariamente indisponível. O endereço está certo e continua valendo.",
        "The service is temporarily unavailable. The address is correct and stays valid.",
    ),
    "alert_unready_next": ("Tente de novo em instantes.", "Try again in a moment."),
    "front": ("Encontrar um item pelo seu identificador", "Find an item by its identifier"),
    "front_about": (
        "Um IBI identifica para sempre um documento, um conjunto de dados ou um programa. Este "
        "resolvedor leva você até onde o item está hoje.",
        "An IBI identifies a document, a data set or a program forever. This resolver takes you to "
        "where the item is today.",
    ),
    "front_date": ("Gerado em (UTC)", "Minted on (UTC)"),
    "front_decode": ("Decodificar", "Decode"),
    "front_decode_about": (
        "Decodificar mostra onde e quando o identificador foi gerado. O item pode ter mudado de "
        "lugar desde então.",
        "Decoding shows where and when the identifier was minted. The item may have moved since.",
    ),
    "front_decoded": ("O que o identificador diz", "What the identifier says"),
    "front_decoded_resolve": ("Ir até o item", "Go to the item"),
    "front_empty": ("Escreva um IBI ou uma URL persistente.", "Write an IBI or a persistent URL."),
    "front_examples": ("Exemplos", "Examples"),
    "front_form": ("Forma", "Form"),
    "front_form_ibip": ("IBIp, feito de um endereço IP", "IBIp, made from an IP address"),
    "front_form_legacy": (
        "identificador anterior à norma; não diz onde nem quando foi gerado",
        "identifier from before the standard; it does not say where or when it was minted",
    ),
    "front_form_rep": (
        "nome de repositório, feito de um nome de domínio",
        "repository name, made from a domain name",
    ),
    "front_host": ("Servidor", "Host"),
    "front_ip": ("Endereço IP", "IP address"),
    "front_label": ("IBI ou URL persistente", "IBI or persistent URL"),
    "front_modifier": ("Sinais", "Signs"),
    "front_modifiers": ("Sinais depois do IBI", "Signs after the IBI"),
    "front_modifiers_about": (
        "O que vem logo depois do IBI escolhe o que se quer do item. Os sinais podem ser "
        "combinados, como em !:(oai_dc); depois deles pode vir o caminho de um arquivo.",
        "The signs right after the IBI choose what you want of the item. They may be combined, as "
        "in !:(oai_dc), and the path of a file may follow them.",
    ),
    "front_leads_to": ("Leva a", "Leads to"),
    "front_mdf_last": ("a última edição", "the last edition"),
    "front_mdf_metadata": ("os metadados", "the metadata"),
    "front_mdf_metadata_format": ("os metadados em um formato", "the metadata in a format"),
    "front_mdf_none": ("o próprio item", "the item itself"),
    "front_mdf_path": ("um arquivo do item", "a file of the item"),
    "front_mdf_translation": (
        "a tradução no idioma do seu navegador",
        "the translation into your browser's language",
    ),
    "front_mdf_translation_to": ("a tradução em um idioma", "the translation into a language"),
    "front_port": ("Porta", "Port"),
    "front_resolve": ("Ir até o item", "Go to the item"),
    "front_undecodable": (
        "O identificador está bem escrito, mas não diz onde nem quando foi gerado",
        "The identifier is well-formed, but does not say where and when it was minted",
    ),
}
